#include "frontend/api_keys.h"

#include <gtest/gtest.h>

namespace llmd::frontend {
namespace {

// printf %s sk-hashed-key | sha256sum
constexpr std::string_view kDigest =
    "dc9bd087b73f2cb27d1429eaab83ab5aeb14e53a395cbc0077bf9dfeff6ae699";

TEST(ApiKeys, KnowsPlainAndHashedKeys) {
  const auto keys =
      ApiKeys::parse("# tenants\n\n  sk-plain-key fairness-id=blue\tobjective=batch\r\nsha256:" +
                     std::string(kDigest) + "\n");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->size(), 2u);
  const auto* plain = keys->find("sk-plain-key");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->fairness_id, "blue");
  EXPECT_EQ(plain->objective, "batch");
  const auto* hashed = keys->find("sk-hashed-key");
  ASSERT_TRUE(hashed);
  EXPECT_EQ(hashed->fairness_id, "");
  for (const auto wrong : {std::string("sk-plain-keY"), std::string("sk-plain-key "), std::string(),
                           "sha256:" + std::string(kDigest), std::string(kDigest)})
    EXPECT_FALSE(keys->find(wrong)) << wrong;
}

TEST(ApiKeys, RefusesBadFilesByLineAndWithoutTheirContent) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "no keys"},
      {"# nothing\n", "no keys"},
      {"sk-good-key\nsecret", "line 2: a key must have 8"},
      {"secret-\x80-key", "line 1: a key must have 8"},
      {"sha256:secret", "line 1: sha256: must be followed by 64 hex digits"},
      {"sha256:" + std::string(63, 'a') + "g", "line 1: sha256: must be followed by 64 hex digits"},
      {"sk-secret-key other-secret", "line 1: after the key only fairness-id"},
      {"sk-secret-key fairness=x", "line 1: after the key only fairness-id"},
      {"sk-secret-key fairness-id=", "line 1: fairness-id must have 1 to 128"},
      {"sk-secret-key objective=" + std::string(129, 'o'), "line 1: objective must have 1 to 128"},
      {"sk-secret-key objective=a objective=b", "line 1: objective is given twice"},
      {"sk-secret-key\n\nsk-secret-key", "line 3: this key stands on an earlier line"},
      {"sk-hashed-key\nsha256:" + std::string(kDigest), "line 2: this key stands"},
  };
  for (const auto& [text, what] : cases) {
    const auto keys = ApiKeys::parse(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_TRUE(keys.error().message.starts_with(what)) << keys.error().message;
    EXPECT_EQ(keys.error().message.find("secret"), std::string::npos) << keys.error().message;
  }
}

TEST(ApiKeys, LimitsTheirNumber) {
  std::string text;
  for (size_t i = 0; i <= ApiKeys::kKeysMax; ++i) text += "sk-key-" + std::to_string(i) + "-x\n";
  EXPECT_FALSE(ApiKeys::parse(text));
  text.resize(text.rfind('\n', text.size() - 2));
  EXPECT_TRUE(ApiKeys::parse(text));
}

}  // namespace
}  // namespace llmd::frontend
