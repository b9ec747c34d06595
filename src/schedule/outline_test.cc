#include "schedule/outline.h"

#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::schedule {
namespace {

struct Everything final : Filter, Scorer, Picker, ProfileHandler, Producer {
  size_t filter(RequestContext&, std::span<uint32_t> selected) const override {
    return selected.size();
  }
  void score(RequestContext&, std::span<const uint32_t>, std::span<double>) const override {}
  size_t pick(RequestContext&, std::span<const uint32_t>, std::span<const double>,
              std::span<uint32_t>) const override {
    return 0;
  }
  Status bind(std::span<const std::string>) override { return {}; }
  size_t next(RequestContext&, std::span<uint16_t>) const override { return 0; }
  Status finish(RequestContext&) const override { return {}; }
  Result<Progress> produce(RequestContext&) const override { return Progress::kDone; }
};

TEST(Outline, OutlivesThePluginsThatItNames) {
  OutlinePtr outline;
  {
    testing::Harness harness(1);
    const auto describe = plugin::describe<Everything>({.type = "everything", .kind = "test"});
    const auto& one = harness.make<Everything>(describe, "", "one");
    const auto& two = harness.make<Everything>(describe, "", "two");
    Pipeline pipeline;
    pipeline.handler.plugin = &one;
    pipeline.producers = {{&one, {}}, {&two, {}}};
    auto& profile = pipeline.profiles.emplace_back();
    profile.name = "default";
    profile.filters = {{&two, {}}};
    profile.scorers = {{{&one, {}}, 2.5}};
    profile.picker.plugin = &two;
    outline = outline_of(pipeline);
  }
  EXPECT_EQ(outline->handler, "one");
  EXPECT_EQ(outline->producers, (std::vector<std::string>{"one", "two"}));
  ASSERT_EQ(outline->profiles.size(), 1u);
  EXPECT_EQ(outline->profiles[0].name, "default");
  EXPECT_EQ(outline->profiles[0].filters, std::vector<std::string>{"two"});
  EXPECT_EQ(outline->profiles[0].scorers[0].name, "one");
  EXPECT_EQ(outline->profiles[0].scorers[0].weight, 2.5);
  EXPECT_EQ(outline->profiles[0].picker, "two");
}

}  // namespace
}  // namespace llmd::schedule
