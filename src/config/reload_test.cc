#include "config/reload.h"

#include "fake_plugins.h"

#include <gtest/gtest.h>

namespace llmd::config {
namespace {

constexpr std::string_view kHead = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n";

class ReloaderTest : public testing::Test {
 protected:
  static std::string document(std::string_view plugin) {
    return std::string(kHead) + "plugins: [{type: " + std::string(plugin) + "}]\n";
  }
  std::string scorer() const {
    return published_.back().pipeline->profiles[0].scorers[0].plugin->name();
  }
  std::string count(std::string_view result) {
    const std::string page = metrics_.render();
    const std::string series = "llmd_config_reloads_total{result=\"" + std::string(result) + "\"} ";
    const size_t at = page.find(series);
    if (at == std::string::npos) return "absent";
    return page.substr(at + series.size(), page.find('\n', at) - at - series.size());
  }

  plugin::Registry registry_ = fake::registry();
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  std::optional<std::string> file_ = document("queue-scorer");
  std::vector<Loaded> published_;
  Reloader reloader_{"f.yaml", *file_, Environment{registry_, state_, metrics_, clock_},
                     [this](Loaded loaded) { published_.push_back(std::move(loaded)); },
                     [this](const std::string&) -> Result<std::string> {
                       if (file_) return *file_;
                       return fail(Code::kNotFound, "f.yaml: cannot be read");
                     }};
};

TEST_F(ReloaderTest, LeavesAnUnchangedFileAlone) {
  for (int i = 0; i < 3; ++i) reloader_.tick();
  EXPECT_TRUE(published_.empty());
  EXPECT_EQ(count("success"), "0");
}

TEST_F(ReloaderTest, LoadsNewContentAtTheSecondTick) {
  file_ = document("kv-cache-utilization-scorer");
  reloader_.tick();
  EXPECT_TRUE(published_.empty());
  reloader_.tick();
  ASSERT_EQ(published_.size(), 1u);
  EXPECT_EQ(scorer(), "kv-cache-utilization-scorer");
  reloader_.tick();
  EXPECT_EQ(published_.size(), 1u);
  EXPECT_EQ(count("success"), "1");
}

TEST_F(ReloaderTest, WaitsUntilTheFileIsWrittenCompletely) {
  const std::string whole = document("kv-cache-utilization-scorer");
  file_ = whole.substr(0, whole.size() - 10);
  reloader_.tick();
  file_ = whole;
  reloader_.tick();
  reloader_.tick();
  EXPECT_EQ(published_.size(), 1u);
  EXPECT_EQ(count("failure"), "0");
}

TEST_F(ReloaderTest, KeepsTheLastGoodOneAndCountsABadOneOnce) {
  file_ = document("no-such-scorer");
  for (int i = 0; i < 4; ++i) reloader_.tick();
  EXPECT_TRUE(published_.empty());
  EXPECT_EQ(count("failure"), "1");
  file_ = document("kv-cache-utilization-scorer");
  reloader_.tick();
  reloader_.tick();
  EXPECT_EQ(published_.size(), 1u);
}

TEST_F(ReloaderTest, CountsAMissingFileOnceAndGoesOnWhenItReturns) {
  file_.reset();
  for (int i = 0; i < 3; ++i) reloader_.tick();
  EXPECT_EQ(count("failure"), "1");
  file_ = document("kv-cache-utilization-scorer");
  reloader_.tick();
  reloader_.tick();
  EXPECT_EQ(published_.size(), 1u);
}

TEST_F(ReloaderTest, ReloadsAtOnceOnDemand) {
  reloader_.reload();
  EXPECT_EQ(published_.size(), 1u);
  file_ = document("kv-cache-utilization-scorer");
  reloader_.reload();
  EXPECT_EQ(published_.size(), 2u);
  reloader_.tick();
  reloader_.tick();
  EXPECT_EQ(published_.size(), 2u);
}

}  // namespace
}  // namespace llmd::config
