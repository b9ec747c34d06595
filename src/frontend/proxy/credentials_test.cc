#include "frontend/credentials.h"

#include <gtest/gtest.h>

#include <fstream>

namespace llmd::frontend {
namespace {

struct CredentialFilesTest : ::testing::Test {
  static std::string path_of(const char* name) { return ::testing::TempDir() + name; }
  static std::string write(const char* name, std::string_view text) {
    std::ofstream(path_of(name)) << text;
    return path_of(name);
  }
  metric::Registry metrics{1};
  CredentialsPtr published;
  std::function<void(CredentialsPtr)> publish = [this](CredentialsPtr p) { published = p; };
};

TEST_F(CredentialFilesTest, TakesChangedFilesAndKeepsWhatABadOneHeld) {
  const CredentialFiles::Paths paths = {write("clients", "sk-first-key\n"),
                                        write("upstream", "up-first-key\n")};
  auto opened = CredentialFiles::open(paths, metrics, publish);
  ASSERT_TRUE(opened) << opened.error().message;
  auto& files = **opened;
  EXPECT_TRUE(files.current()->client_keys->find("sk-first-key"));
  EXPECT_EQ(files.current()->upstream_authorization, "Bearer up-first-key");

  write("clients", "sk-second-key\n");
  files.tick();
  EXPECT_FALSE(published) << "seen once only: it may be half-written";
  files.tick();
  ASSERT_TRUE(published);
  EXPECT_FALSE(published->client_keys->find("sk-first-key"));
  EXPECT_TRUE(published->client_keys->find("sk-second-key"));
  EXPECT_EQ(published->upstream_authorization, "Bearer up-first-key");

  write("clients", "bad\n");
  write("upstream", "up-second-key\n");
  files.reload();
  EXPECT_TRUE(published->client_keys->find("sk-second-key"));
  EXPECT_EQ(published->upstream_authorization, "Bearer up-second-key");
  const auto page = metrics.render();
  const std::string name = "llmd_credential_reloads_total";
  EXPECT_NE(page.find(name + "{file=\"client_api_keys\",result=\"failure\"} 1\n"), page.npos);
  EXPECT_NE(page.find(name + "{file=\"client_api_keys\",result=\"success\"} 1\n"), page.npos);
  EXPECT_NE(page.find(name + "{file=\"upstream_api_key\",result=\"success\"} 1\n"), page.npos);
}

TEST_F(CredentialFilesTest, NamesTheFileThatItCannotUse) {
  for (const auto& paths : {CredentialFiles::Paths{write("bad", "hush"), ""},
                            CredentialFiles::Paths{"", write("bad", "hush hush")},
                            CredentialFiles::Paths{"/nowhere/bad", ""}}) {
    const auto opened = CredentialFiles::open(paths, metrics, publish);
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message.find("/bad'"), std::string::npos) << opened.error().message;
    EXPECT_EQ(opened.error().message.find("hush"), std::string::npos) << opened.error().message;
  }
}

}  // namespace
}  // namespace llmd::frontend
