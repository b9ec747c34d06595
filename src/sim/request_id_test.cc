#include "sim/request_id.h"

#include <gtest/gtest.h>

namespace llmd::sim {
namespace {

TEST(RequestId, MatchesGoldenIds) {
  EXPECT_EQ(request_id(1, 8000, 0), "3a069026-7e8a-587a-99f1-7deef1ed71f1");
  EXPECT_EQ(request_id(1, 8000, 1), "d689fae0-166d-561f-ae6e-f80bcca9758e");
  EXPECT_EQ(request_id(42, 8001, 0), "e7e312ed-cc7b-5668-a018-35fed4966cbf");
}

TEST(RequestId, AcceptsEverySeed) {
  EXPECT_EQ(request_id(INT64_MIN, 65535, UINT64_MAX).size(), 36u);
}

}  // namespace
}  // namespace llmd::sim
