#include "tls/reloader.h"

#include "http/testing/wire.h"
#include "tls/testing/authority.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

namespace llmd::tls {
namespace {

using http::testing::settle;
using testing::Authority;
using testing::Directory;

class ReloaderTest : public ::testing::Test {
 protected:
  /// A first pair, and whoever follows it.
  void start(bool watch = true) {
    write(authority_.issue({"first"}));
    load(watch);
  }
  void load(bool watch) {
    auto made = Context::server(
        {.certificate_file = directory_.path("tls.crt"), .key_file = directory_.path("tls.key")});
    ASSERT_TRUE(made) << made.error().message;
    reloader_.emplace(loop_, metrics_);
    reloader_->add(*made, "serving", watch);
    settle(loop_);
  }
  void write(const PemPair& pair) {
    directory_.write("tls.crt", pair.certificate);
    directory_.write("tls.key", pair.key);
  }
  /// Lets time pass in steps that timers see.
  void pass(Nanos time) {
    settle(loop_);
    for (Nanos step = std::chrono::milliseconds(10); time > Nanos(0); time -= step) {
      clock_.advance(step);
      loop_.turn(Nanos(0));
    }
    settle(loop_);
  }
  int count(const std::string& result) {
    const std::string name = "llmd_tls_reloads_total{result=\"" + result + "\",use=\"serving\"} ";
    const std::string page = metrics_.render();
    const size_t at = page.find(name);
    return at == std::string::npos ? 0 : std::stoi(page.substr(at + name.size()));
  }

  ManualClock clock_;
  io::Loop loop_{0, 1, clock_};
  metric::Registry metrics_{1};
  Authority authority_;
  Directory directory_;
  std::optional<Reloader> reloader_;
};

constexpr Nanos kSettled = Reloader::kSettle + std::chrono::milliseconds(20);

TEST_F(ReloaderTest, LoadsAPairThatIsWrittenOneFileAfterTheOther) {
  start();
  const auto pair = authority_.issue({"second"});
  directory_.write("tls.crt", pair.certificate);
  pass(Reloader::kSettle - std::chrono::milliseconds(50));
  directory_.write("tls.key", pair.key);
  pass(Reloader::kSettle - std::chrono::milliseconds(50));
  EXPECT_EQ(count("applied"), 0) << "waits for the files to settle";
  pass(kSettled);
  EXPECT_EQ(count("applied"), 1);
  EXPECT_EQ(count("failed"), 0);
}

TEST_F(ReloaderTest, LoadsAPairThatIsRenamedIntoPlace) {
  start();
  const auto pair = authority_.issue({"second"});
  std::filesystem::rename(directory_.write("new.crt", pair.certificate),
                          directory_.path("tls.crt"));
  std::filesystem::rename(directory_.write("new.key", pair.key), directory_.path("tls.key"));
  pass(kSettled);
  EXPECT_EQ(count("applied"), 1);
}

TEST_F(ReloaderTest, LoadsAPairThatKubernetesSwaps) {
  const auto put = [&](const std::string& folder) {
    const auto pair = authority_.issue({folder});
    directory_.write(folder + "/tls.crt", pair.certificate);
    directory_.write(folder + "/tls.key", pair.key);
    std::filesystem::create_symlink(folder, directory_.path("..tmp"));
    std::filesystem::rename(directory_.path("..tmp"), directory_.path("..data"));
  };
  put("..1");
  std::filesystem::create_symlink("..data/tls.crt", directory_.path("tls.crt"));
  std::filesystem::create_symlink("..data/tls.key", directory_.path("tls.key"));
  load(true);
  for (int n = 2; n < 4; ++n) {
    put(".." + std::to_string(n));
    std::filesystem::remove_all(directory_.path(".." + std::to_string(n - 1)));
    pass(kSettled);
    EXPECT_EQ(count("applied"), n - 1);
  }
  EXPECT_EQ(count("failed"), 0);
}

TEST_F(ReloaderTest, KeepsTheOldPairWhenTheNewOneIsBad) {
  start();
  directory_.write("tls.key", authority_.issue({"another"}).key);
  pass(kSettled);
  EXPECT_EQ(count("failed"), 1);
  pass(Reloader::kRecheck + kSettled);
  EXPECT_EQ(count("failed"), 1) << "one fault is told once";
  write(authority_.issue({"good"}));
  pass(kSettled);
  EXPECT_EQ(count("applied"), 1);
}

TEST_F(ReloaderTest, SurvivesTheDirectory) {
  Directory outer;
  std::filesystem::create_directory(outer.path("certs"));
  const auto pair = authority_.issue({"a"});
  const auto crt = outer.write("certs/tls.crt", pair.certificate);
  const auto key = outer.write("certs/tls.key", pair.key);
  auto made = Context::server({.certificate_file = crt, .key_file = key});
  ASSERT_TRUE(made);
  reloader_.emplace(loop_, metrics_);
  reloader_->add(*made, "serving", true);
  std::filesystem::remove_all(outer.path("certs"));
  pass(kSettled);
  EXPECT_EQ(count("failed"), 1);
  const auto renewed = authority_.issue({"b"});
  outer.write("certs/tls.crt", renewed.certificate);
  outer.write("certs/tls.key", renewed.key);
  pass(Reloader::kRecheck + kSettled);
  EXPECT_EQ(count("applied"), 1) << "looks again from time to time";
  const auto third = authority_.issue({"c"});
  outer.write("certs/tls.crt", third.certificate);
  outer.write("certs/tls.key", third.key);
  pass(kSettled);
  EXPECT_EQ(count("applied"), 2) << "and watches again";
}

TEST_F(ReloaderTest, WaitsForChangesWithoutEndOnlySoLong) {
  start();
  const auto pair = authority_.issue({"second"});
  write(pair);
  for (int i = 0; i < 30; ++i) {
    directory_.write("unrelated", std::to_string(i));
    pass(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(count("applied"), 1);
}

TEST_F(ReloaderTest, LoadsWhenAskedWithoutWatching) {
  start(false);
  write(authority_.issue({"second"}));
  pass(Reloader::kRecheck + kSettled);
  EXPECT_EQ(count("applied"), 0);
  reloader_->reload();
  EXPECT_EQ(count("applied"), 1);
}

}  // namespace
}  // namespace llmd::tls
