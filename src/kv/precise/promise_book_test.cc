#include "kv_precise/promise_book.h"

#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::kv_precise {
namespace {

using schedule::testing::Harness;

class PromiseBookTest : public ::testing::Test {
 protected:
  PromiseBookTest() {
    for (const auto& endpoint : harness_.endpoints) book_.on_added(endpoint);
  }
  bool note(size_t i, int64_t promised, std::optional<int64_t> reported) {
    return book_.note(*harness_.endpoints[i],
                      {.promised = promised, .reported = reported, .slack = 16});
  }
  /// How many of `count` such answers cost the endpoint what is known of it.
  int judge(size_t i, int count, int64_t promised, std::optional<int64_t> reported) {
    int judged = 0;
    for (int n = 0; n < count; ++n) judged += note(i, promised, reported);
    return judged;
  }
  bool trusted(size_t i) { return book_.trusted(*harness_.endpoints[i]); }
  std::string page() { return harness_.metric_registry().render(); }

  Harness harness_{2};
  PromiseBook book_{harness_.metric_registry()};
};

TEST_F(PromiseBookTest, TrustsWhoKeepsPromises) {
  EXPECT_EQ(judge(0, 100, 160, 160), 0);
  EXPECT_EQ(judge(0, 100, 160, 144), 0);  // the last block is computed again
  EXPECT_EQ(judge(0, 100, 160, 1600), 0);
  EXPECT_TRUE(trusted(0));
}

TEST_F(PromiseBookTest, DistrustsWhoBreaksThem) {
  EXPECT_EQ(judge(0, 15, 160, 0), 0);
  EXPECT_TRUE(trusted(0));
  EXPECT_TRUE(note(0, 160, 0));
  EXPECT_FALSE(trusted(0));
  EXPECT_TRUE(trusted(1));
  EXPECT_EQ(judge(0, 32, 160, 0), 2);  // every 16th
}

TEST_F(PromiseBookTest, TrustsAgainWhoKeepsPromisesLater) {
  judge(0, 16, 160, 0);
  EXPECT_EQ(judge(0, 15, 160, 160), 0);
  EXPECT_FALSE(trusted(0));
  note(0, 160, 160);
  EXPECT_TRUE(trusted(0));
}

TEST_F(PromiseBookTest, ForgivesAFew) {
  for (int round = 0; round < 40; ++round) {
    EXPECT_EQ(judge(0, 4, 160, 160), 0);
    EXPECT_EQ(judge(0, 1, 160, 0), 0);
  }
  EXPECT_TRUE(trusted(0));
}

TEST_F(PromiseBookTest, JudgesOnlyWhoReports) {
  EXPECT_EQ(judge(0, 100, 160, std::nullopt), 0);
  EXPECT_TRUE(trusted(0));
  note(0, 0, 32);
  EXPECT_EQ(judge(0, 16, 160, std::nullopt), 1);  // now its silence means none
}

TEST_F(PromiseBookTest, SmallPromisesJudgeNobody) {
  EXPECT_EQ(judge(0, 100, 16, 0), 0);
  EXPECT_EQ(judge(0, 100, 0, 0), 0);
  EXPECT_TRUE(trusted(0));
}

TEST_F(PromiseBookTest, ForgetsWhoLeaves) {
  judge(0, 16, 160, 0);
  book_.on_removed(harness_.endpoints[0]);
  EXPECT_TRUE(trusted(0));
  EXPECT_FALSE(note(0, 160, 0));
  EXPECT_EQ(page().find("endpoint_name=\"e0\""), std::string::npos);
  book_.on_added(harness_.endpoints[0]);
  EXPECT_EQ(judge(0, 15, 160, 0), 0);
}

TEST_F(PromiseBookTest, CountsBothWays) {
  note(0, 160, 64);
  note(0, 32, 96);
  note(0, 32, 32);
  const auto text = page();
  for (const auto* line :
       {"llmd_kv_promised_tokens_total{endpoint_name=\"e0\",namespace=\"default\"} 224",
        "llmd_kv_reported_tokens_total{endpoint_name=\"e0\",namespace=\"default\"} 192",
        "llmd_kv_over_promised_tokens_total{endpoint_name=\"e0\",namespace=\"default\"} 96",
        "llmd_kv_under_promised_tokens_total{endpoint_name=\"e0\",namespace=\"default\"} 64",
        "llmd_kv_endpoint_trusted{endpoint_name=\"e0\",namespace=\"default\"} 1"})
    EXPECT_NE(text.find("\n" + std::string(line) + "\n"), std::string::npos) << line << "\n"
                                                                             << text;
}

}  // namespace
}  // namespace llmd::kv_precise
