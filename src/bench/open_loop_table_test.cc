#include "bench/open_loop.h"

#include <gtest/gtest.h>

namespace llmd::bench {
namespace {

TEST(OpenLoopTable, ShowsCountsAndPercentiles) {
  OpenLoopResult r{.sent = 10,
                   .ok = 7,
                   .refused = 1,
                   .broken = 1,
                   .why = {{"cannot connect", 1}, {"status 429", 1}},
                   .timed_out = 1,
                   .output_tokens = 40,
                   .seconds = 2};
  r.ttft_ms = {10, 20, 30};
  r.e2e_ms = {100, 200, 300};
  const std::string table = open_loop_table(r);
  EXPECT_NE(
      table.find("10 sent in 2.0 s (5.0/s): 7 ok, 1 refused, 1 broken, 1 timed out, 0 not sent"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("    1 x cannot connect\n    1 x status 429\n"), std::string::npos) << table;
  EXPECT_NE(table.find("20.0 output tokens/s"), std::string::npos);
  EXPECT_NE(table.find("P50      20.0"), std::string::npos) << table;
  EXPECT_NE(table.find("P50     200.0"), std::string::npos) << table;
}

}  // namespace
}  // namespace llmd::bench
