#include "http2/output.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace llmd::http2 {
namespace {

const std::string kLarge(5000, 'x');  // large enough to stay where it is

std::string front_of(const Gather& gather) {
  std::array<std::string_view, 8> views;
  std::string out;
  const size_t n = gather.front(views);
  for (size_t i = 0; i < n; ++i) out += views[i];
  return out;
}

class OutputTest : public ::testing::Test {
 protected:
  io::BufferPool pool_;
  io::ByteBudget budget_{1 << 20};
  Gather gather_{pool_};
};

TEST_F(OutputTest, CopiedAndReferredBytesGoInOrder) {
  std::string small = "head";
  gather_.add(small);
  gather_.add(kLarge);
  gather_.copy("ta");
  gather_.copy("il");
  small = "gone";
  EXPECT_EQ(gather_.bytes(), 4 + kLarge.size() + 4);
  EXPECT_EQ(front_of(gather_), "head" + kLarge + "tail");
  std::array<std::string_view, 2> views;
  EXPECT_EQ(gather_.front(views), 2u);
  EXPECT_EQ(views[1].data(), kLarge.data());
}

TEST_F(OutputTest, GoesOnWhereASendEnded) {
  const std::string all = "head" + kLarge + "tail";
  for (const size_t step : {1, 3, 999, 5006}) {
    gather_.add("head");
    gather_.add(kLarge);
    gather_.add("tail");
    for (size_t sent = 0; sent < all.size();) {
      const size_t n = std::min(step, all.size() - sent);
      gather_.sent(n);
      sent += n;
      ASSERT_EQ(front_of(gather_), all.substr(sent)) << step;
    }
    EXPECT_TRUE(gather_.empty());
  }
}

TEST_F(OutputTest, KeepsTheRestWhenWhatItRefersToGoes) {
  std::string large = kLarge;
  gather_.add("head");
  gather_.add(large);
  gather_.add("tail");
  gather_.sent(5);
  gather_.keep_rest();
  large.assign(large.size(), 'y');
  EXPECT_EQ(front_of(gather_), kLarge.substr(1) + "tail");
  gather_.copy("more");
  gather_.sent(kLarge.size() + 1);
  EXPECT_EQ(front_of(gather_), "ilmore");
}

TEST_F(OutputTest, AQueueHandsOnWhatItCopiedAndWhatStays) {
  OutputQueue queue(pool_, budget_);
  std::string copied = "copied";
  queue.push({copied});
  queue.push({kLarge, true});
  queue.push({});
  queue.push({"end"});
  copied = "------";
  EXPECT_EQ(queue.bytes(), 6 + kLarge.size() + 3);
  EXPECT_EQ(queue.own_bytes(), 9u);
  queue.pop(4, gather_);
  EXPECT_EQ(queue.own_bytes(), 5u);
  queue.push({" of all"});
  queue.pop(queue.bytes(), gather_);
  EXPECT_EQ(front_of(gather_), "copied" + kLarge + "end of all");
  gather_.sent(gather_.bytes());
  EXPECT_GT(budget_.used(), 0u);
  queue.release_drained();
  EXPECT_EQ(budget_.used(), 0u);
}

}  // namespace
}  // namespace llmd::http2
