#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd {
namespace {

TEST(Base64, MatchesTheStandardsVectors) {
  Arena arena;
  for (const auto& [bytes, text] : {std::pair("", ""),
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"},
                                    {"default/vllm-0-rank-0", "ZGVmYXVsdC92bGxtLTAtcmFuay0w"}}) {
    EXPECT_EQ(base64_encode(bytes, arena), text);
    EXPECT_EQ(base64_decode(text, arena), bytes);
  }
}

TEST(Base64, KeepsEveryByte) {
  Arena arena;
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(base64_decode(base64_encode(bytes, arena), arena), bytes);
  EXPECT_EQ(base64_encode("\xfb\xff\xfe", arena), "+//+");
}

TEST(Base64, RefusesOtherTexts) {
  Arena arena;
  for (const auto* text : {"Z", "Zg", "Zg=", "Zm9", "Zm9v=", "=",
                           "====", "Z===", "Zg==Zg==", "Zh==", "Zm9=", "Z g=", "-_-_", "Zm9v\n"})
    EXPECT_FALSE(base64_decode(text, arena)) << text;
}

}  // namespace
}  // namespace llmd
