#include "session/session_table.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace llmd::plugins {
namespace {

using std::chrono::seconds;

constexpr Nanos kTtl = seconds(300);
const TimePoint kNow{std::chrono::hours(1)};

TEST(SessionTable, FindsWhatWasBound) {
  SessionTable table;
  EXPECT_FALSE(table.find(7, kNow, kTtl));
  table.bind(7, 70, kNow);
  table.bind(8, 80, kNow);
  EXPECT_EQ(table.find(7, kNow, kTtl), 70u);
  EXPECT_EQ(table.find(8, kNow, kTtl), 80u);
  table.bind(7, 71, kNow);
  EXPECT_EQ(table.find(7, kNow, kTtl), 71u);
  EXPECT_EQ(table.size(kNow, kTtl), 2u);
}

TEST(SessionTable, ForgetsOldSessions) {
  SessionTable table;
  table.bind(7, 70, kNow);
  EXPECT_TRUE(table.find(7, kNow + seconds(300), kTtl));
  EXPECT_FALSE(table.find(7, kNow + seconds(301), kTtl));
  EXPECT_TRUE(table.find(7, kNow - seconds(2), kTtl));  // another loop's clock reading
}

TEST(SessionTable, IsBoundedAndKeepsTheNewest) {
  SessionTable table;
  const size_t many = 4 * SessionTable::kSessionsMax;
  for (uint64_t i = 1; i <= many; ++i) table.bind(i, i, kNow + seconds(i / 4096));
  EXPECT_EQ(table.size(kNow + seconds(many / 4096), kTtl), SessionTable::kSessionsMax);
  EXPECT_EQ(table.find(many, kNow + seconds(many / 4096), kTtl), many);
  EXPECT_FALSE(table.find(1, kNow, kTtl));
}

/// Sessions are always bound to their own number, so any other answer is a mixture.
TEST(SessionTable, NeverMixesSessions) {
  SessionTable table;
  constexpr uint64_t kStride = SessionTable::kSessionsMax / 8;  // all in one bucket
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        Rng rng(t);
        for (int i = 0; i < 20'000; ++i) {
          const uint64_t session = kStride * (1 + rng.below(24));
          table.bind(session, session / kStride, kNow);
          const auto found = table.find(kStride * (1 + rng.below(24)), kNow, kTtl);
          if (found && (*found == 0 || *found > 24)) ++wrong;
          const auto own = table.find(session, kNow, kTtl);
          if (own && *own != session / kStride) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace llmd::plugins
