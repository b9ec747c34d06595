#include "io/unix_socket.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace llmd::io {
namespace {

TEST(ListenUnix, MakesItsFolderAndReplacesWhatNobodyListensOn) {
  const std::string folder = ::testing::TempDir() + "unix-" + std::to_string(::getpid());
  const std::string path = folder + "/a.socket";
  {
    const auto first = listen_unix(path);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_TRUE(connect_unix(path));
    EXPECT_EQ(listen_unix(path).error().message,
              "cannot listen on " + path + ": Address already in use");
  }
  EXPECT_FALSE(connect_unix(path));
  EXPECT_TRUE(listen_unix(path));
  std::filesystem::remove_all(folder);
  const std::string file = ::testing::TempDir() + "no-socket-" + std::to_string(::getpid());
  std::ofstream(file) << "kept";
  EXPECT_FALSE(listen_unix(file)) << "a file is no socket";
  EXPECT_TRUE(std::filesystem::exists(file));
  std::filesystem::remove(file);
  const std::string longer(200, 'x');
  EXPECT_TRUE(listen_unix(longer).error().message.ends_with("the path is too long"));
}

}  // namespace
}  // namespace llmd::io
