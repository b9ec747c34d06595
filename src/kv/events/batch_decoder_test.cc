#include "kv_events/batch_decoder.h"

#include "test_support.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmd::kv_events {
namespace {

using testing::bytes;
using testing::describe;
using Lines = std::vector<std::string>;

constexpr uint64_t kE1 = 3236607068019569386, kE2 = 2758186210834249151;
constexpr std::string_view kHead = "93 cb3ff8000000000000 91 ";

struct Decoded {
  Lines events;
  uint32_t unknown = 0, malformed = 0;
  std::optional<uint32_t> rank;
  double published = 0;
};

/// Nothing: the batch was refused.
std::optional<Decoded> decode(std::string_view hex, std::string_view engine = "vllm") {
  BatchDecoder decoder(**find_adapter(engine));
  const std::string payload = bytes(hex);
  const auto batch = decoder.decode(payload);
  if (!batch) return std::nullopt;
  return Decoded{describe(*batch), batch->unknown, batch->malformed, batch->rank, batch->published};
}

Lines events_of(std::string_view hex, std::string_view engine = "vllm") {
  const auto decoded = decode(hex, engine);
  EXPECT_TRUE(decoded) << hex;
  return decoded ? decoded->events : Lines{"refused"};
}

std::string tokens(int from, int to) {
  std::vector<int> all;
  for (int i = from; i <= to; ++i) all.push_back(i);
  return fmt::format("{}", all);
}

std::string stored(std::vector<uint64_t> blocks, std::string_view rest) {
  return fmt::format("stored {} {}", blocks, rest);
}

TEST(BatchDecoder, ReadsVllmArrays) {
  const auto a1 = decode(
      "93cb3ff8000000000000919bab426c6f636b53746f72656492cf2ceabcfae6d332eacf26470bbec927f5bfc0dc00"
      "200102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2010c0a3475055c092c0c000ae66"
      "756c6c5f617474656e74696f6e00");
  ASSERT_TRUE(a1);
  EXPECT_EQ(a1->published, 1.5);
  EXPECT_EQ(a1->rank, 0u);
  EXPECT_EQ(a1->events, (Lines{stored({kE1, kE2}, "gpu group 0 parent 0 tokens " + tokens(1, 32) +
                                                      " of 16 full_attention")}));
  EXPECT_EQ(
      events_of("93cb3ff80000000000009195ab426c6f636b53746f72656491cf26470bbec927f5bfcf2ceabc"
                "fae6d332eadc00101112131415161718191a1b1c1d1e1f201000"),
      (Lines{stored({kE2}, fmt::format("gpu parent {} tokens {} of 16", kE1, tokens(17, 32)))}));
  EXPECT_EQ(events_of("93cb3ff80000000000009197ab426c6f636b53746f72656492cf2ceabcfae6d332eacf26470b"
                      "bec927f5bfc09000c0a343505500"),
            (Lines{stored({kE1, kE2}, "cpu parent 0 tokens [] of 0")}));
  EXPECT_EQ(events_of("93cb40000000000000009193ac426c6f636b52656d6f76656492cf2ceabcfae6d332eacf2647"
                      "0bbec927f5bfa347505500"),
            (Lines{fmt::format("removed [{}, {}] gpu", kE1, kE2)}));
  EXPECT_EQ(events_of("93cb40080000000000009191b0416c6c426c6f636b73436c656172656400"),
            Lines{"cleared"});
}

TEST(BatchDecoder, ReadsVllmMaps) {
  EXPECT_EQ(
      events_of("93cb3ff8000000000000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865"
                "7391cf2ceabcfae6d332eab1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc"
                "00100102030405060708090a0b0c0d0e0f10aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d"
                "656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797391c0a967726f75705f69"
                "647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00"),
      (Lines{stored({kE1},
                    "gpu group 0 parent 0 tokens " + tokens(1, 16) + " of 16 full_attention")}));
  EXPECT_EQ(
      events_of("93cb40000000000000009184a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68"
                "617368657391cf26470bbec927f5bfa66d656469756da3475055a967726f75705f6964780000"),
      (Lines{fmt::format("removed [{}] gpu group 0", kE2)}));
  EXPECT_EQ(events_of("93cb40080000000000009181a474797065b0416c6c426c6f636b73436c656172656400"),
            Lines{"cleared"});
}

TEST(BatchDecoder, TakesTheLastEightBytesOfAHash) {
  EXPECT_EQ(events_of("93cb3ff80000000000009193ac426c6f636b52656d6f76656491c420202da172482d928bbc42"
                      "ab25b0151e2b895f13f41002e27b2ceabcfae6d332eaa347505500"),
            (Lines{fmt::format("removed [{}] gpu", kE1)}));
  EXPECT_EQ(events_of(std::string(kHead) + "92 ac426c6f636b52656d6f766564 92 c4020102 c40107 c0"),
            (Lines{"removed [258, 7] gpu"}));
}

TEST(BatchDecoder, ReadsSglangArraysWithSignedHashes) {
  EXPECT_EQ(events_of("93cb3ff80000000000009197ab426c6f636b53746f72656491d3eeddef0b82167eebc0940506"
                      "070804c0a3475055c0",
                      "sglang"),
            (Lines{"stored [17212176183586094827] gpu parent 0 tokens [5, 6, 7, 8] of 4"}));
  EXPECT_EQ(
      events_of("92cb3ff80000000000009192ac426c6f636b52656d6f76656491d3eeddef0b82167eeb", "sglang"),
      (Lines{"removed [17212176183586094827] gpu"}));
}

TEST(BatchDecoder, PutsSglangsSaltOnTheFirstBlockOfAPrompt) {
  // … lora_id nil, medium, {cache_salt: "s"}
  const std::string options = "c0 a3475055 81 aa63616368655f73616c74 a173 c0";
  EXPECT_EQ(events_of(std::string(kHead) + "98 ab426c6f636b53746f726564 920102 c0 940506 0708 02" +
                          options,
                      "sglang"),
            (Lines{"stored [1, 2] gpu parent 0 tokens [5, 6, 7, 8] of 2 extras[0] [\"s\"]"}));
  EXPECT_EQ(
      events_of(std::string(kHead) + "98 ab426c6f636b53746f726564 9102 01 920708 02" + options,
                "sglang"),
      (Lines{"stored [2] gpu parent 1 tokens [7, 8] of 2"}));
  // The newest form: a map.
  EXPECT_EQ(events_of(std::string(kHead) +
                          "86 a474797065 ab426c6f636b53746f726564 ac626c6f636b5f686173686573 9101"
                          "b1706172656e745f626c6f636b5f68617368 c0 a9746f6b656e5f696473 9105"
                          "aa626c6f636b5f73697a65 01 aa63616368655f73616c74 a173 c0",
                      "sglang"),
            (Lines{"stored [1] gpu parent 0 tokens [5] of 1 extras[0] [\"s\"]"}));
}

TEST(BatchDecoder, AcceptsHashesOfAnyWidth) {
  EXPECT_EQ(events_of("93cb3ff80000000000009193ac426c6f636b52656d6f7665649164a347505500"),
            (Lines{"removed [100] gpu"}));
}

TEST(BatchDecoder, ReadsEventsWrappedInBytes) {
  EXPECT_EQ(events_of("92cb3ff800000000000091c42a97ab426c6f636b53746f72656491cf2ceabcfae6d332ea0090"
                      "00c0ae5348415245445f53544f52414745"),
            (Lines{stored({kE1}, "shared_storage parent 0 tokens [] of 0")}));
}

TEST(BatchDecoder, ReadsABatchThatIsAMap) {
  const auto batch = decode(
      "83 a27473 cb3ff8000000000000 a66576656e7473 91 91b0416c6c426c6f636b73436c6561726564"
      "ac6174746e5f64705f72616e6b 03");
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->published, 1.5);
  EXPECT_EQ(batch->rank, 3u);
  EXPECT_EQ(batch->events, Lines{"cleared"});
}

TEST(BatchDecoder, ReadsExtrasAndDropsTheAdaptersName) {
  // extra_keys: [["lora", ["img", 4], 7], nil, [["img", 0], "salt"], ["lora"]]
  const std::string event =
      "99 ab426c6f636b53746f726564 9401020304 c0 90 10 01 c0 a46c6f7261"
      "94 93a46c6f7261 92a3696d6704 07 c0 92 92a3696d6700 a473616c74 91a46c6f7261 00";
  EXPECT_EQ(events_of(std::string(kHead) + event),
            (Lines{"stored [1, 2, 3, 4] gpu parent 0 tokens [] of 16 lora lora extras[0] [\"img\"]"
                   " extras[2] [\"img\", \"salt\"]"}));
}

TEST(BatchDecoder, TellsTheSaltFromImages) {
  const auto salted = [](std::string_view parent, std::string_view extras) {
    const std::string payload =
        bytes(std::string(kHead) + "99 ab426c6f636b53746f726564 920102 " + std::string(parent) +
              " 940506 0708 02 c0 c0 c0 92 " + std::string(extras) + " 00");
    BatchDecoder decoder(**find_adapter("vllm"));
    const auto batch = decoder.decode(payload);
    return batch && batch->events.size() == 1 && batch->events[0].salted;
  };
  EXPECT_TRUE(salted("c0", "91 a473616c74 c0"));                            // ["salt"], nil
  EXPECT_TRUE(salted("c0", "92 92a3696d6700 a473616c74 91 92a3696d6702"));  // [["img", 0], "salt"]
  EXPECT_FALSE(salted("c0", "91 92a3696d6700 c0"));                         // [["img", 0]]
  EXPECT_FALSE(salted("c0", "91 a3696d67 91 a3696d67"));                    // in both blocks
  EXPECT_FALSE(salted("09", "91 a473616c74 c0"));  // no prompt's first block
  EXPECT_FALSE(salted("c0", "c0 91 a3696d67"));
}

TEST(BatchDecoder, IgnoresFieldsAndElementsThatAreNew) {
  // A removal with more elements than known, and a map with names that are not known.
  EXPECT_EQ(events_of("93 cb3ff8000000000000 92 96 ac426c6f636b52656d6f766564 9101 a3475055 c0"
                      "81a16b93010203 cb3ff8000000000000"
                      "84 a474797065 ac426c6f636b52656d6f766564 a86c6f63616c697479 81a1610b"
                      "ac626c6f636b5f686173686573 9102 a66d656469756d a34e4557 00"),
            (Lines{"removed [1] gpu", "removed [2] new"}));
}

TEST(BatchDecoder, JoinsRemovalsOfOneMediumAndGroup) {
  EXPECT_EQ(events_of("93 cb3ff8000000000000 95"
                      "93 ac426c6f636b52656d6f766564 9101 a3475055"
                      "93 ac426c6f636b52656d6f766564 920203 a3475055"
                      "93 ac426c6f636b52656d6f766564 9104 a3435055"
                      "94 ac426c6f636b52656d6f766564 9105 a3435055 01"
                      "94 ac426c6f636b52656d6f766564 9106 a3435055 01 c0"),
            (Lines{"removed [1, 2, 3] gpu", "removed [4] cpu", "removed [5, 6] cpu group 1"}));
}

TEST(BatchDecoder, LeavesOutEventsThatItCannotReadAndGoesOn) {
  const std::string cleared = "91b0416c6c426c6f636b73436c6561726564";
  struct Case {
    const char* what;
    const char* event;
    uint32_t unknown, malformed;
  };
  const Case cases[] = {
      {"new type", "92a34e657701", 1, 0},
      {"new type in a map", "82a474797065a34e6577a16b01", 1, 0},
      {"no type in a map", "81a16b01", 0, 1},
      {"no array", "05", 0, 1},
      {"empty array", "90", 0, 1},
      {"type that is no text", "9105", 0, 1},
      {"blocks that are no array", "92ac426c6f636b52656d6f76656405", 0, 1},
      {"removal without blocks", "91ac426c6f636b52656d6f766564", 0, 1},
      {"empty hash", "92ac426c6f636b52656d6f76656491c400", 0, 1},
      {"store without tokens", "93ab426c6f636b53746f7265649101c0", 0, 1},
      {"negative token", "95ab426c6f636b53746f7265649101c091ff10", 0, 1},
      {"negative group", "94ac426c6f636b52656d6f7665649101c0ff", 0, 1},
      {"extras that are neither nil nor a list", "99ab426c6f636b53746f7265649101c0901001c0c09105",
       0, 1},
      {"more blocks than bytes", "92ac426c6f636b52656d6f766564dd0000000a01", 0, 1},
  };
  for (const Case& c : cases) {
    const bool broken = std::string_view(c.what) == "more blocks than bytes";
    const auto batch = decode(fmt::format("93cb3ff800000000000092{}{}00", c.event, cleared));
    EXPECT_EQ(batch.has_value(), !broken) << c.what;
    if (!batch) continue;
    EXPECT_EQ(batch->events, Lines{"cleared"}) << c.what;
    EXPECT_EQ(batch->unknown, c.unknown) << c.what;
    EXPECT_EQ(batch->malformed, c.malformed) << c.what;
  }
}

TEST(BatchDecoder, RefusesWhatIsNoBatch) {
  for (const char* hex : {"", "c0", "05", "90", "91cb3ff8000000000000", "92a1310090", "92cb3ff8",
                          "92cb3ff800000000000005", "92cb3ff80000000000009191",
                          "81a27473cb3ff8000000000000", "93cb3ff800000000000090"})
    EXPECT_FALSE(decode(hex)) << hex;
  BatchDecoder decoder(**find_adapter(""));
  EXPECT_FALSE(decoder.decode(std::string(BatchDecoder::kBatchBytesMax + 1, '\x91')));
}

TEST(BatchDecoder, KeepsToItsMemoryWhateverIsAnnounced) {
  // Many events that each announce as many blocks as the message has bytes.
  std::string payload = bytes("93 cb3ff8000000000000 dc2000");
  for (int i = 0; i < 0x2000; ++i) payload += bytes("92 ac426c6f636b52656d6f766564 dc2000 a0");
  payload += std::string(0x2000, '\xc0');
  BatchDecoder decoder(**find_adapter(""));
  decoder.decode(payload);
}

TEST(PublishedAt, ReadsTheTimeAndNothingElse) {
  EXPECT_EQ(published_at(bytes("93cb3ff8000000000000")), 1.5);
  EXPECT_EQ(published_at(bytes("83a27473cb3ff8000000000000")), 1.5);
  for (const char* hex : {"", "90", "05", "93c0", "81a16bcb3ff8000000000000"})
    EXPECT_EQ(published_at(bytes(hex)), 0) << hex;
}

TEST(FindAdapter, TakesVllmWhenNoneIsNamed) {
  EXPECT_EQ((*find_adapter(""))->name, "vllm");
  EXPECT_EQ((*find_adapter("sglang"))->name, "sglang");
  const auto unknown = find_adapter("sglan");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "'sglan' is not one of 'vllm', 'sglang' (did you mean 'sglang'?)");
}

}  // namespace
}  // namespace llmd::kv_events
