#include "base/secret.h"

#include <gtest/gtest.h>

#include <fstream>

namespace llmd {
namespace {

TEST(Secret, ComparesByContent) {
  EXPECT_TRUE(same_secret("open-sesame", "open-sesame"));
  EXPECT_FALSE(same_secret("open-sesame", "open-sesamE"));
  EXPECT_FALSE(same_secret("open-sesame", "open-sesame1"));
  EXPECT_FALSE(same_secret("open-sesame", ""));
  EXPECT_TRUE(same_secret("", ""));
}

TEST(Secret, IsOneVisibleWord) {
  EXPECT_EQ(*only_secret(" open-sesame\n", "f"), "open-sesame");
  for (const auto* bad : {"", "short", "two tokens here", "open-sesame\nand-more"}) {
    const auto secret = only_secret(bad, "the-file");
    ASSERT_FALSE(secret) << bad;
    EXPECT_NE(secret.error().message.find("the-file"), std::string::npos);
    EXPECT_EQ(secret.error().message.find("sesame"), std::string::npos) << "content in the message";
  }
  EXPECT_FALSE(only_secret(std::string(kSecretBytesMax + 1, 'x'), "f"));
}

TEST(Secret, IsReadFromFilesOfBoundedSize) {
  const auto path = ::testing::TempDir() + "secret";
  std::ofstream(path) << "0123456789";
  EXPECT_EQ(*read_secret_file(path, 10), "0123456789");
  EXPECT_FALSE(read_secret_file(path, 9));
  EXPECT_FALSE(read_secret_file("/nowhere/secret", 10));
  EXPECT_FALSE(read_secret_file(::testing::TempDir(), 10)) << "a folder";
}

TEST(BearerToken, IsWhatFollowsTheScheme) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bEARER  abc "), "abc");
  EXPECT_EQ(bearer_token("Basic abc"), "");
  EXPECT_EQ(bearer_token("Bearer"), "");
  EXPECT_EQ(bearer_token(""), "");
}

}  // namespace
}  // namespace llmd
