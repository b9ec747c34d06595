#include "fleet/file_discovery.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <unistd.h>

namespace llmd::fleet {
namespace {

namespace fs = std::filesystem;

/// An endpoints file in a folder of its own. The clock moves only by hand; the kernel queues a
/// change's notice before the call that made the change returns.
class FileDiscoveryTest : public testing::Test {
 protected:
  FileDiscoveryTest() { fs::create_directories(directory_); }
  ~FileDiscoveryTest() override { fs::remove_all(directory_); }

  void write(std::string_view text) { std::ofstream(path_) << text; }
  void replace_by_rename(std::string_view text) {
    const auto other = directory_ / ".new";
    std::ofstream(other) << text;
    fs::rename(other, path_);
  }
  static std::string entry(std::string_view name, std::string_view port) {
    return "- {name: " + std::string(name) + ", address: 10.0.0.1, port: '" + std::string(port) +
           "'}\n";
  }
  static std::string list(const std::vector<std::string>& names) {
    std::string text = "endpoints:\n";
    for (const auto& name : names) text += entry(name, "80");
    return text;
  }

  Status start(bool watch = true) {
    discovery_.emplace(FileDiscovery::Options{.path = path_, .watch = watch}, clock_, metrics_);
    return discovery_->start(fleet_);
  }
  void advance(Nanos d) {
    clock_.advance(d);
    discovery_->tick();
  }
  /// Lets a change be noticed and the wait after it pass.
  void settle() {
    discovery_->tick();
    advance(FileDiscovery::kDebounce);
  }
  /// "name:port" of each member.
  std::string members() const {
    std::string out;
    const auto snapshot = fleet_.snapshot();
    for (const auto& e : snapshot->endpoints)
      out += (out.empty() ? "" : " ") + e->spec().name + ":" + std::to_string(e->spec().port);
    return out;
  }
  bool page_has(const std::string& line) {
    return metrics_.render().find("\n" + line + "\n") != std::string::npos;
  }

  const fs::path directory_ = fs::path(testing::TempDir()) /
                              ("llmd-endpoints-" + std::to_string(::getpid()) + "-" +
                               testing::UnitTest::GetInstance()->current_test_info()->name());
  const fs::path path_ = directory_ / "endpoints.yaml";
  ManualClock clock_;
  metric::Registry metrics_{1};
  Fleet fleet_;
  std::optional<FileDiscovery> discovery_;
};

TEST_F(FileDiscoveryTest, FillsTheFleetAtStart) {
  write(list({"a", "b"}));
  ASSERT_TRUE(start());
  EXPECT_EQ(members(), "a:80 b:80");
}

TEST_F(FileDiscoveryTest, FailsToStartWithoutAReadableFile) {
  const auto status = start();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "endpoints file '" + path_.string() + "': cannot be read: No such file or directory");
}

TEST_F(FileDiscoveryTest, FailsToStartWithAnUndecodableFile) {
  write("endpoints: 5");
  EXPECT_FALSE(start());
}

TEST_F(FileDiscoveryTest, SkipsBadEntriesAtStart) {
  write(list({"a"}) + entry("b", "0"));
  ASSERT_TRUE(start());
  EXPECT_EQ(members(), "a:80");
  EXPECT_TRUE(page_has("llmd_discovery_bad_entries_total 1"));
}

TEST_F(FileDiscoveryTest, AppliesChangesAfterTheWait) {
  write(list({"a"}));
  ASSERT_TRUE(start());
  write(list({"a", "b"}));
  discovery_->tick();
  advance(FileDiscovery::kDebounce - Nanos(1));
  EXPECT_EQ(members(), "a:80");
  advance(Nanos(1));
  EXPECT_EQ(members(), "a:80 b:80");
}

TEST_F(FileDiscoveryTest, WaitsWhileChangesGoOnButNotForEver) {
  write(list({"a"}));
  ASSERT_TRUE(start());
  const Nanos step = FileDiscovery::kDebounce / 2;
  Nanos waited{0};
  for (int i = 0; members() == "a:80"; ++i) {
    write(list({"a", "b"}) + "#" + std::to_string(i));
    advance(step);
    waited += step;
    ASSERT_LE(waited, FileDiscovery::kDebounceMax + 2 * step);
  }
  EXPECT_GE(waited, FileDiscovery::kDebounceMax);
}

TEST_F(FileDiscoveryTest, FollowsAtomicRenames) {
  write(list({"a"}));
  ASSERT_TRUE(start());
  for (const auto* name : {"b", "c", "d"}) {
    replace_by_rename(list({name}));
    settle();
    EXPECT_EQ(members(), std::string(name) + ":80");
  }
}

TEST_F(FileDiscoveryTest, FollowsTheLinkSwapOfAMountedConfigMap) {
  fs::create_directory(directory_ / "v1");
  fs::create_directory(directory_ / "v2");
  std::ofstream(directory_ / "v1" / "endpoints.yaml") << list({"a"});
  std::ofstream(directory_ / "v2" / "endpoints.yaml") << list({"b"});
  fs::create_directory_symlink("v1", directory_ / "..data");
  fs::create_symlink(fs::path("..data") / "endpoints.yaml", path_);
  ASSERT_TRUE(start());
  fs::create_directory_symlink("v2", directory_ / "..tmp");
  fs::rename(directory_ / "..tmp", directory_ / "..data");
  settle();
  EXPECT_EQ(members(), "b:80");
}

TEST_F(FileDiscoveryTest, ChangesNothingForTheSameContent) {
  write(list({"a"}));
  ASSERT_TRUE(start());
  const auto before = fleet_.snapshot();
  replace_by_rename(list({"a"}));
  settle();
  EXPECT_EQ(fleet_.snapshot(), before);
  EXPECT_TRUE(page_has("llmd_discovery_reloads_total{result=\"applied\"} 1"));
}

TEST_F(FileDiscoveryTest, KeepsTheOldSetWhenTheFileIsDeleted) {
  write(list({"a"}));
  ASSERT_TRUE(start());
  fs::remove(path_);
  settle();
  EXPECT_EQ(members(), "a:80");
  EXPECT_TRUE(page_has("llmd_discovery_reloads_total{result=\"failed\"} 1"));
  write(list({"b"}));
  settle();
  EXPECT_EQ(members(), "b:80");
}

TEST_F(FileDiscoveryTest, KeepsTheOldSetWhenTheFileCannotBeDecoded) {
  write(list({"a"}));
  ASSERT_TRUE(start());
  for (const auto* text : {"", "endpoints:", "endpoints: [{name: b, addr",
                           "endpoints:\n- {name: b, address: 10.0.0.1, port: 80}"}) {
    write(text);
    settle();
    EXPECT_EQ(members(), "a:80") << text;
  }
  EXPECT_TRUE(page_has("llmd_discovery_reloads_total{result=\"failed\"} 4"));
  write(list({"b"}));
  settle();
  EXPECT_EQ(members(), "b:80");
}

TEST_F(FileDiscoveryTest, BadEntryKeepsItsPreviousVersion) {
  write("endpoints:\n" + entry("a", "80") + entry("b", "80") + entry("c", "80"));
  ASSERT_TRUE(start());
  write("endpoints:\n" + entry("a", "81") + entry("b", "0") + entry("d", "0"));
  settle();
  EXPECT_EQ(members(), "a:81 b:80") << "a changed, b kept, c gone, d never there";
  write("endpoints:\n" + entry("b", "x"));
  settle();
  EXPECT_EQ(members(), "b:80");
}

TEST_F(FileDiscoveryTest, LaterOfTwoEntriesWins) {
  write("endpoints:\n" + entry("a", "80") + entry("a", "81"));
  ASSERT_TRUE(start());
  EXPECT_EQ(members(), "a:81");
}

TEST_F(FileDiscoveryTest, ReadsAgainAfterAWhileWithoutNotice) {
  write(list({"a"}));
  ASSERT_TRUE(start());
  fs::remove_all(directory_);
  settle();
  fs::create_directories(directory_);
  write(list({"b"}));
  advance(FileDiscovery::kRecheckInterval);
  EXPECT_EQ(members(), "b:80");
  write(list({"c"}));
  settle();
  EXPECT_EQ(members(), "c:80") << "the new folder is watched";
}

TEST_F(FileDiscoveryTest, IgnoresChangesUnlessAskedToWatch) {
  write(list({"a"}));
  ASSERT_TRUE(start(false));
  write(list({"b"}));
  advance(FileDiscovery::kRecheckInterval);
  settle();
  EXPECT_EQ(members(), "a:80");
}

/// Hands the fleet one endpoint at start and another at the first tick.
class TwoSteps final : public Discovery {
 public:
  explicit TwoSteps(Status status) : status_(std::move(status)) {}
  Status start(Fleet& fleet) override {
    fleet_ = &fleet;
    if (status_) fleet.set({{.name = "start"}});
    return status_;
  }
  void tick() override { fleet_->set({{.name = "tick"}}); }

 private:
  Status status_;
  Fleet* fleet_ = nullptr;
};

TEST(DiscoveryThread, FillsTheFleetBeforeStartReturnsThenTicks) {
  Fleet fleet;
  std::promise<void> ticked;
  const auto token = fleet.subscribe([&](const SnapshotPtr& s) {
    if (s->endpoints.at(0)->spec().name == "tick") ticked.set_value();
  });
  DiscoveryThread thread(std::make_unique<TwoSteps>(Status{}));
  ASSERT_TRUE(thread.start(fleet));
  EXPECT_EQ(fleet.snapshot()->version, 1u);
  ticked.get_future().wait();
}

TEST(DiscoveryThread, ReportsAFailedStart) {
  Fleet fleet;
  DiscoveryThread thread(std::make_unique<TwoSteps>(fail(Code::kNotFound, "no file")));
  EXPECT_FALSE(thread.start(fleet));
}

}  // namespace
}  // namespace llmd::fleet
