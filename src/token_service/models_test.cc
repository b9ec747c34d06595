#include "models.h"

#include <gtest/gtest.h>

namespace llmd::token_service {
namespace {

TEST(Models, AreFoundByName) {
  const Models one({{"llama", nullptr}});
  EXPECT_TRUE(one.find("llama"));
  EXPECT_TRUE(one.find("")) << "it is the only one";
  EXPECT_EQ(one.find("lama").error().message, "there is no model 'lama' (did you mean 'llama'?)");
  const Models two({{"llama", nullptr}, {"qwen", nullptr}});
  EXPECT_TRUE(two.find("qwen"));
  EXPECT_EQ(two.find("").error().message, "field 'model': required; one of llama, qwen");
}

TEST(Models, AreNamedInBodies) {
  EXPECT_EQ(model_of(R"({"prompt":{"model":"x"},"model":"a\/b"})"), "a/b");
  EXPECT_EQ(model_of(R"({"model":1})"), "");
  EXPECT_EQ(model_of("nonsense"), "");
}

}  // namespace
}  // namespace llmd::token_service
