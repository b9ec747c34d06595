#include "fleet/endpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace llmd::fleet {
namespace {

TEST(Endpoint, BuildsItsNames) {
  const Endpoint v4({.name = "a", .address = "10.0.0.1", .port = 8000}, 3, 7);
  EXPECT_EQ(v4.id(), "default/a");
  EXPECT_EQ(v4.host_port(), "10.0.0.1:8000");
  EXPECT_EQ(v4.slot(), 3u);
  EXPECT_EQ(v4.generation(), 7u);
  const Endpoint v6({.name = "b", .ns = "prod", .address = "fd00::1", .port = 80}, 0, 1);
  EXPECT_EQ(v6.id(), "prod/b");
  EXPECT_EQ(v6.host_port(), "[fd00::1]:80");
}

TEST(Endpoint, FindsLabels) {
  const Endpoint endpoint({.name = "a", .labels = {{"engine", "vllm"}, {"role", ""}}}, 0, 1);
  EXPECT_EQ(*endpoint.label("engine"), "vllm");
  EXPECT_EQ(*endpoint.label("role"), "");
  EXPECT_EQ(endpoint.label("rol"), nullptr);
  EXPECT_EQ(endpoint.label("zone"), nullptr);
}

TEST(MetricsSlot, StartsNeverUpdated) {
  const MetricsSlot slot;
  EXPECT_FALSE(slot.load().ever_updated());
}

TEST(MetricsSlot, ReadsBackWhatWasStored) {
  MetricsSlot slot;
  slot.store({.waiting_queue_size = 3,
              .kv_cache_usage = 0.25,
              .updated = TimePoint(Nanos(5)),
              .interval = Nanos(7)});
  const auto metrics = slot.load();
  EXPECT_EQ(metrics.waiting_queue_size, 3);
  EXPECT_EQ(metrics.kv_cache_usage, 0.25);
  EXPECT_TRUE(metrics.ever_updated());
  EXPECT_EQ(metrics.interval, Nanos(7));
}

TEST(MetricsSlot, NeverShowsHalfAWrite) {
  constexpr int kWrites = 20'000;
  MetricsSlot slot;
  std::atomic<bool> done{false};
  std::vector<std::jthread> readers;
  std::atomic<int> torn{0};
  for (int r = 0; r < 2; ++r)
    readers.emplace_back([&] {
      int64_t last = 0;
      while (!done.load()) {
        const auto m = slot.load();
        const bool whole = m.running_requests_size == m.waiting_queue_size &&
                           m.interval.count() == m.waiting_queue_size;
        if (!whole || m.waiting_queue_size < last) ++torn;
        last = m.waiting_queue_size;
      }
    });
  for (int i = 1; i <= kWrites; ++i)
    slot.store({.waiting_queue_size = i, .running_requests_size = i, .interval = Nanos(i)});
  done = true;
  readers.clear();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(slot.load().waiting_queue_size, kWrites);
}

}  // namespace
}  // namespace llmd::fleet
