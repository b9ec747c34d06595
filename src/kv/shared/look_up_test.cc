#include "look_up.h"

#include "commands.h"

#include "redis/testing.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace llmd::kv_shared {
namespace {

using Keys = std::vector<uint64_t>;
using Hits = std::vector<Hit>;

Keys counting(size_t n, uint64_t from = 1) {
  Keys keys(n);
  std::iota(keys.begin(), keys.end(), from);
  return keys;
}

std::string fields(std::vector<Entry> entries) {
  std::string out = "*" + std::to_string(entries.size()) + "\r\n";
  for (const Entry& entry : entries) redis::append_word(out, encode(entry));
  return out;
}

/// A question for pods a, b and c. "gpu" counts 1, "cpu" 0.8, all else 0.5.
class LookUpTest : public ::testing::Test, protected redis::testing::ScriptedServer {
 protected:
  LookUpTest() { welcome(*client_); }

  void ask(std::vector<Keys> chains, std::vector<std::string> pods = {"a", "b", "c"}) {
    look_up_.emplace(*client_, weight_, Question{std::move(chains), std::move(pods)},
                     [this](std::optional<Hits> hits) {
                       answer_ = std::move(hits);
                       ended_ = true;
                     });
    look_up_->start();
  }
  /// The server is asked for these and answers so.
  void exchange(const Keys& keys, std::string_view replies) {
    std::string commands;
    append_look_up(commands, keys);
    expect(commands);
    answer(replies);
  }
  void expect_hits(const Hits& hits) {
    until([&] { return ended_; });
    EXPECT_EQ(answer_, hits);
  }

  const LookUp::Weight weight_ = [](std::string_view tier) {
    return tier == "gpu" ? 1 : tier == "cpu" ? 0.8 : 0.5;
  };
  std::unique_ptr<redis::Client> client_ = client([](bool, std::string_view) {});
  std::optional<LookUp> look_up_;
  std::optional<Hits> answer_;
  bool ended_ = false;
};

TEST_F(LookUpTest, CountsLongestPrefixesByTheirBestTier) {
  ask({{1, 2, 3, 4}});
  const Entry a{"a", "gpu"}, b{"b", "gpu"}, c{"c", "cpu"};
  exchange({1, 2, 3, 4}, fields({a, {"a", "cpu"}, c, {"stranger", "gpu"}}) +
                             fields({c, {"a", "disk"}, b}) + fields({{"c", "", true}, b}) +
                             fields({a, b}));
  expect_hits({{1.5, 2, {{"gpu", 1}, {"cpu", 1}}}, {}, {0.8 + 0.8 + 1, 3, {{"cpu", 2}}}});
}

TEST_F(LookUpTest, CountsEachTierFromTheStart) {
  ask({{1, 2}, {3}});
  const Entry gpu{"a", "gpu"}, cpu{"a", "cpu"}, soon{"a", "", true};
  exchange({1, 2}, fields({gpu, soon}) + fields({cpu, soon}));
  exchange({3}, fields({cpu}));
  expect_hits({{3 - 0.2, 3, {{"gpu", 1}, {"", 2}, {"cpu", 1}}}, {}, {}});
}

TEST_F(LookUpTest, PassesOverWhatIsNoEntry) {
  ask({{1}});
  exchange({1}, "*3\r\n$1\r\nx\r\n:5\r\n" + fields({{"a", "gpu", false, 3}}).substr(4));
  expect_hits({{1, 1, {{"gpu", 1}}}, {}, {}});
}

TEST_F(LookUpTest, SumsSeveralChains) {
  ask({{1, 2}, {}, {7}});
  exchange({1, 2}, fields({{"a", "gpu"}}) + fields({{"a", "gpu"}}));
  exchange({7}, fields({{"a", "gpu"}, {"b", "gpu"}}));
  expect_hits({{3, 3, {{"gpu", 3}}}, {1, 1, {{"gpu", 1}}}, {}});
}

TEST_F(LookUpTest, AsksOnByGrowingWindowsWhileSomebodyHasTheChain) {
  ask({counting(1000), {5000}});
  std::string replies;
  const auto all = fields({{"a", "gpu"}});
  for (int i = 0; i < 128; ++i) replies += all;
  exchange(counting(128), replies);
  replies = all;
  for (int i = 1; i < 256; ++i) replies += "*0\r\n";
  exchange(counting(256, 129), replies);
  exchange({5000}, "*0\r\n");
  expect_hits({{129, 129, {{"gpu", 129}}}, {}, {}});
}

TEST_F(LookUpTest, FailsWithTheServer) {
  ask({{1, 2}});
  exchange({1, 2}, "-ERR\r\n");
  until([&] { return ended_; });
  EXPECT_FALSE(answer_);
  look_up_.reset();  // its second reply is dropped
  answer("*0\r\n");
  ended_ = false;
  ask({{3}});
  expect("*2\r\n$5\r\nHKEYS\r\n$1\r\n3\r\n");
  connection.reset();
  until([&] { return ended_; });
  EXPECT_FALSE(answer_);
}

}  // namespace
}  // namespace llmd::kv_shared
