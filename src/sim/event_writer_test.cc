#include "event_writer.h"

#include "kv_events/batch_decoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <numeric>
#include <vector>

namespace llmd::sim {
namespace {

using nlohmann::json;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return out;
}

Digest digest(std::string_view hex_digits) {
  Digest d{};
  const size_t skip = d.size() - hex_digits.size() / 2;
  for (size_t i = 0; i < hex_digits.size(); i += 2)
    d[skip + i / 2] =
        static_cast<uint8_t>(std::stoul(std::string(hex_digits.substr(i, 2)), nullptr, 16));
  return d;
}

const Digest kE1 = digest("202da172482d928bbc42ab25b0151e2b895f13f41002e27b2ceabcfae6d332ea");
const Digest kE2 = digest("26470bbec927f5bf");

std::vector<uint32_t> tokens_from(uint32_t first, size_t n) {
  std::vector<uint32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

struct Case {
  const char* name;
  EventFormat format;
  bool whole;
  double published;
  std::optional<uint32_t> rank;
  void (*write)(EventWriter&);
  const char* payload;
};

void store_both(EventWriter& w) {
  const Digest blocks[] = {kE1, kE2};
  const auto tokens = tokens_from(1, 32);
  w.stored({.blocks = blocks, .tokens = tokens, .block_tokens = 16});
}
void store_first(EventWriter& w) {
  const auto tokens = tokens_from(1, 16);
  w.stored({.blocks = {&kE1, 1}, .tokens = tokens, .block_tokens = 16});
}
void store_signed(EventWriter& w) {
  const Digest block = digest("eeddef0b82167eeb");
  const auto tokens = tokens_from(5, 4);
  w.stored({.blocks = {&block, 1}, .tokens = tokens, .block_tokens = 4});
}
void remove_first(EventWriter& w) {
  w.removed(kE1);
}
void remove_second(EventWriter& w) {
  w.removed(kE2);
}
void clear(EventWriter& w) {
  w.cleared();
}

const Case kCases[] = {
    {"ArrayStore", EventFormat::kArray, false, 1.5, 0, store_both,
     "93cb3ff8000000000000919bab426c6f636b53746f72656492cf2ceabcfae6d332eacf26470bbec927f5bfc0dc002"
     "0"
     "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2010c0a3475055c092c0c000ae66756"
     "c"
     "6c5f617474656e74696f6e00"},
    {"MapStore", EventFormat::kMap, false, 1.5, 0, store_first,
     "93cb3ff8000000000000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cf2ceab"
     "c"
     "fae6d332eab1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc00100102030405060708090"
     "a"
     "0b0c0d0e0f10aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616"
     "d"
     "65c0aa65787472615f6b65797391c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae6"
     "6"
     "756c6c5f617474656e74696f6e00"},
    {"MapRemove", EventFormat::kMap, false, 2, 0, remove_second,
     "93cb40000000000000009184a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cf264"
     "7"
     "0bbec927f5bfa66d656469756da3475055a967726f75705f6964780000"},
    // The reference vector has no group; engines that tell the group of a store tell it here, too.
    {"ArrayRemoveOfWholeHash", EventFormat::kArray, true, 1.5, 0, remove_first,
     "93cb3ff80000000000009194ac426c6f636b52656d6f76656491c420202da172482d928bbc42ab25b0151e2b895f1"
     "3"
     "f41002e27b2ceabcfae6d332eaa34750550000"},
    {"ArrayCleared", EventFormat::kArray, false, 3, 0, clear,
     "93cb40080000000000009191b0416c6c426c6f636b73436c656172656400"},
    {"MapCleared", EventFormat::kMap, false, 3, 0, clear,
     "93cb40080000000000009181a474797065b0416c6c426c6f636b73436c656172656400"},
    {"SglangStore", EventFormat::kSglang, false, 1.5, std::nullopt, store_signed,
     "93cb3ff80000000000009197ab426c6f636b53746f72656491d3eeddef0b82167eebc0940506070804c0a3475055c"
     "0"},
};

TEST(EventWriter, WritesTheReferencePayloads) {
  for (const Case& c : kCases) {
    EventWriter writer(c.format, c.whole);
    c.write(writer);
    EXPECT_EQ(writer.count(), 1u);
    EXPECT_EQ(hex(writer.take_batch(c.published, c.rank)), c.payload) << c.name;
    EXPECT_EQ(writer.count(), 0u);
  }
}

/// Writes a captured event again; digests of which only a number is known begin with zeros.
void write(EventWriter& writer, const json& event) {
  const auto digest_of = [](const json& hash) {
    return digest(hash.is_number() ? fmt::format("{:016x}", hash.get<uint64_t>())
                                   : hash.at("hex").get<std::string>());
  };
  if (event.at("type") == "AllBlocksCleared") return writer.cleared();
  if (event.at("type") == "BlockRemoved") {
    ASSERT_EQ(event.at("block_hashes").size(), 1u);
    return writer.removed(digest_of(event.at("block_hashes").at(0)));
  }
  std::vector<Digest> blocks;
  for (const json& hash : event.at("block_hashes")) blocks.push_back(digest_of(hash));
  const json& parent = event.at("parent_block_hash");
  const Digest before = parent.is_null() ? Digest{} : digest_of(parent);
  const auto tokens = event.at("token_ids").get<std::vector<uint32_t>>();
  const std::string lora = event.at("lora_name").is_null() ? "" : event.at("lora_name");
  const json& extra = event.at("extra_keys").at(0);
  const std::string last = extra.is_null() ? "" : extra.back().get<std::string>();
  writer.stored({.parent = parent.is_null() ? nullptr : &before,
                 .blocks = blocks,
                 .tokens = tokens,
                 .block_tokens = event.at("block_size"),
                 .lora_id = event.at("lora_id").is_null() ? 0 : event.at("lora_id").get<uint32_t>(),
                 .lora_name = lora,
                 .cache_salt = last == lora ? "" : last});
}

TEST(EventWriter, WritesWhatARealEngineWrote) {
  for (const char* name : {"sha256_cbor", "sha256_lora", "llama3_bytes_noseed", "dp2", "chunked"}) {
    std::ifstream file(fmt::format("{}/tests/data/vllm/events-{}.jsonl", LLMD_SOURCE_DIR, name));
    ASSERT_TRUE(file) << name;
    size_t messages = 0;
    for (std::string line; std::getline(file, line); ++messages) {
      const json message = json::parse(line);
      const json& batch = message.at("decoded");
      const bool whole = message.at("topic") == "";
      EventWriter writer(EventFormat::kMap, whole);
      for (const json& event : batch.at(1)) write(writer, event);
      EXPECT_EQ(hex(writer.take_batch(batch.at(0), batch.at(2).get<uint32_t>())),
                message.at("payload_hex"))
          << name << " " << messages;
    }
    EXPECT_GT(messages, 3u) << name;
  }
}

TEST(EventWriter, IsReadBackInEveryFormat) {
  const auto tokens = tokens_from(1, 16);
  for (const EventFormat format : {EventFormat::kArray, EventFormat::kMap, EventFormat::kSglang}) {
    const bool sglang = format == EventFormat::kSglang;
    EventWriter writer(format, false);
    writer.removed(kE2);
    writer.stored({.blocks = {&kE1, 1},
                   .tokens = tokens,
                   .block_tokens = 16,
                   .lora_id = 2,
                   .lora_name = "adapter",
                   .cache_salt = "salt"});
    writer.stored({.parent = &kE1, .blocks = {&kE2, 1}, .tokens = tokens, .block_tokens = 16});
    const std::string payload = writer.take_batch(7, 3);
    kv_events::BatchDecoder decoder(**kv_events::find_adapter(sglang ? "sglang" : "vllm"));
    const auto batch = decoder.decode(payload);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->unknown + batch->malformed, 0u);
    EXPECT_EQ(batch->rank, 3u);
    ASSERT_EQ(batch->events.size(), 3u);
    using Type = kv_events::Event::Type;
    EXPECT_EQ(batch->events[0].type, Type::kRemoved);
    EXPECT_EQ(batch->events[0].blocks[0], short_hash(kE2));
    const auto& stored = batch->events[1];
    EXPECT_EQ(stored.type, Type::kStored);
    EXPECT_EQ(stored.blocks[0], short_hash(kE1));
    EXPECT_EQ(stored.parent, 0u);
    EXPECT_TRUE(std::ranges::equal(stored.tokens, tokens));
    EXPECT_EQ(stored.block_tokens, 16u);
    EXPECT_EQ(stored.lora_name, sglang ? "" : "adapter");
    ASSERT_EQ(stored.extras.size(), 1u);
    ASSERT_EQ(stored.extras[0].size(), 1u);
    EXPECT_EQ(stored.extras[0][0], "salt");
    EXPECT_EQ(batch->events[2].parent, short_hash(kE1));
    EXPECT_TRUE(batch->events[2].extras.empty());
  }
}

}  // namespace
}  // namespace llmd::sim
