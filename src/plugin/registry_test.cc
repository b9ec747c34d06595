#include "plugin/registry.h"

#include <gtest/gtest.h>

namespace llmd::plugin {
namespace {

struct Parameters {
  int64_t threshold = 128;
};
const Params<Parameters> kTable = {
    field("threshold", &Parameters::threshold, "requests", "A limit."),
};

struct Plain : Plugin {};
struct Named : Plugin {
  explicit Named(const Context& context) : seen(context.name) {}
  std::string seen;
};
struct Tuned : Plugin {
  Tuned(Parameters p, const Context&) : threshold(p.threshold) {}
  int64_t threshold;
};
struct Picky : Plugin {
  static Result<std::unique_ptr<Picky>> create(Parameters p, const Context&) {
    if (p.threshold == 13) return fail(Code::kBadRequest, "thirteen is refused");
    return std::make_unique<Picky>();
  }
};

class RegistryTest : public testing::Test {
 protected:
  Result<Made> make(std::string_view type, std::string_view yaml = "") {
    const Context context{name_, state_, metrics_, clock_};
    if (yaml.empty()) return registry_.make(*registry_.find(type), context, nullptr);
    const auto node = codec::parse_yaml(yaml, "f.yaml");
    return registry_.make(*registry_.find(type), context, &*node);
  }

  std::string name_ = "mine";
  StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Registry registry_{{
      describe<Plain>({.type = "plain"}),
      describe<Plain>({.type = "careless", .ignores_parameters = true}),
      describe<Named>({.type = "named"}),
      describe<Tuned>({.type = "tuned"}, kTable),
      describe<Picky>({.type = "picky"}, kTable),
  }};
};

TEST_F(RegistryTest, StampsTypeAndName) {
  const auto made = make("plain");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->plugin->type(), "plain");
  EXPECT_EQ(made->plugin->name(), "mine");
  EXPECT_EQ(made->parameters, "{}");
}

TEST_F(RegistryTest, PassesTheContext) {
  const auto made = make("named");
  ASSERT_TRUE(made);
  EXPECT_EQ(static_cast<Named&>(*made->plugin).seen, "mine");
}

TEST_F(RegistryTest, PassesParametersAndReportsEffectiveOnes) {
  const auto made = make("tuned", "{THRESHOLD: 10}");
  ASSERT_TRUE(made);
  EXPECT_EQ(static_cast<Tuned&>(*made->plugin).threshold, 10);
  EXPECT_EQ(made->parameters, R"({"threshold":10})");
}

TEST_F(RegistryTest, NamesThePluginInErrors) {
  EXPECT_EQ(make("tuned", "{x: 1}").error().message,
            "f.yaml:1: plugin 'mine' (tuned): parameter 'x': unknown");
  EXPECT_EQ(make("plain", "{x: 1}").error().message,
            "f.yaml:1: plugin 'mine' (plain): parameter 'x': unknown");
  EXPECT_EQ(make("picky", "{threshold: 13}").error().message,
            "plugin 'mine' (picky): thirteen is refused");
}

TEST_F(RegistryTest, AcceptsAnythingWhereParametersAreIgnored) {
  EXPECT_TRUE(make("careless", "{x: 1}"));
}

TEST_F(RegistryTest, FindsByExactType) {
  EXPECT_NE(registry_.find("tuned"), nullptr);
  EXPECT_EQ(registry_.find("Tuned"), nullptr);
  EXPECT_EQ(registry_.types().size(), 5u);
}

}  // namespace
}  // namespace llmd::plugin
