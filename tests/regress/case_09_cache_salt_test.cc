#include "idle_fleet.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// llm-d-router#1389, GIE#1646: prompts of tenants with different salts shared cache entries.

conformance::Step salted(std::string op, const std::string& salt) {
  auto step = completion(std::move(op), "\"" + std::string(4096, 'a') + "\"", 0);
  if (!salt.empty()) step.body.insert(1, R"("cache_salt":)" + salt + ",");
  return step;
}

double after(const std::string& trained, const std::string& asked) {
  conformance::Picker picker(idle_fleet(2));
  picker.run(salted("train", trained));
  return picker.run(salted("probe", asked)).scores.at("e0") - 4;
}

TEST(Case09, OtherSaltsShareNothing) {
  EXPECT_DOUBLE_EQ(after(R"("a")", R"("a")"), 3);
  EXPECT_DOUBLE_EQ(after(R"("a")", R"("b")"), 0);
  EXPECT_DOUBLE_EQ(after(R"("a")", ""), 0);
}

TEST(Case09, NoSaltIsTheEmptyOne) {
  EXPECT_DOUBLE_EQ(after("", R"("")"), 3);
}

}  // namespace
}  // namespace llmd::regress
