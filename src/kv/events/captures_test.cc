#include "test_support.h"

#include "kv_events/batch_decoder.h"
#include "kv_events/topic.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace llmd::kv_events {
namespace {

using nlohmann::json;
using testing::bytes;
using testing::describe;

/// The block's number: as captured, or the last eight bytes of a captured digest.
uint64_t number_of(const json& hash) {
  if (hash.is_number()) return hash.get<uint64_t>();
  const std::string hex = hash.at("hex");
  return std::stoull(hex.substr(hex.size() - 16), nullptr, 16);
}

std::vector<uint64_t> numbers_of(const json& hashes) {
  std::vector<uint64_t> all;
  for (const json& hash : hashes) all.push_back(number_of(hash));
  return all;
}

/// The line that describe() gives for an event that Python's msgpack has decoded.
std::string expected(const json& event) {
  if (event.at("type") == "AllBlocksCleared") return "cleared";
  const auto blocks = numbers_of(event.at("block_hashes"));
  EXPECT_EQ(event.at("medium"), "GPU");
  const std::string place =
      fmt::format("{} gpu group {}", blocks, event.at("group_idx").get<int>());
  if (event.at("type") == "BlockRemoved") return "removed " + place;
  const json& parent = event.at("parent_block_hash");
  std::string out = fmt::format(
      "stored {} parent {} tokens {} of {}", place, parent.is_null() ? 0 : number_of(parent),
      event.at("token_ids").get<std::vector<uint32_t>>(), event.at("block_size").get<int>());
  std::string lora;
  if (!event.at("lora_name").is_null()) lora = event.at("lora_name");
  if (!lora.empty()) out += " lora " + lora;
  const json& extras = event.at("extra_keys");
  for (size_t i = 0; i < extras.size(); ++i) {
    if (extras[i].is_null()) continue;
    auto texts = extras[i].get<std::vector<std::string>>();
    if (texts.front() == lora) texts.erase(texts.begin());
    if (!texts.empty()) out += fmt::format(" extras[{}] {}", i, texts);
  }
  return out + " " + event.at("kv_cache_spec_kind").get<std::string>();
}

/// Consecutive removals count as one.
std::vector<std::string> expected_batch(const json& events) {
  std::vector<std::string> out;
  json open;  // the removal that may go on
  for (const json& event : events) {
    if (!open.is_null() && event.at("type") == "BlockRemoved") {
      for (const json& hash : event.at("block_hashes")) open.at("block_hashes").push_back(hash);
      out.back() = expected(open);
      continue;
    }
    out.push_back(expected(event));
    open = event.at("type") == "BlockRemoved" ? event : json();
  }
  return out;
}

class Captures : public ::testing::TestWithParam<const char*> {};

TEST_P(Captures, AreReadAsPythonReadsThem) {
  const std::string path =
      fmt::format("{}/tests/data/vllm/events-{}.jsonl", LLMD_SOURCE_DIR, GetParam());
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  BatchDecoder decoder(**find_adapter("vllm"));
  size_t messages = 0;
  for (std::string line; std::getline(file, line); ++messages) {
    const json message = json::parse(line);
    const std::string payload = bytes(message.at("payload_hex").get<std::string>());
    const auto batch = decoder.decode(payload);
    ASSERT_TRUE(batch) << line;
    const json& decoded = message.at("decoded");
    EXPECT_EQ(batch->published, decoded.at(0).get<double>());
    EXPECT_EQ(published_at(payload), batch->published);
    EXPECT_EQ(batch->rank, decoded.at(2).get<uint32_t>());
    EXPECT_EQ(batch->unknown + batch->malformed, 0u);
    EXPECT_EQ(describe(*batch), expected_batch(decoded.at(1)));
    const Topic topic = parse_topic(message.at("topic").get_ref<const std::string&>());
    EXPECT_TRUE(topic.pod.empty() || (topic.pod == "localhost" && topic.model == "tiny"));
    // Cut short anywhere, none of it counts.
    for (size_t size = 0; size < payload.size(); size += 7)
      EXPECT_FALSE(decoder.decode(std::string_view(payload).substr(0, size)));
  }
  EXPECT_GT(messages, 3u);
}

INSTANTIATE_TEST_SUITE_P(Vllm, Captures,
                         ::testing::Values("sha256_cbor", "xxhash_cbor", "sha256_lora",
                                           "llama3_bytes_noseed", "dp2", "chunked"));

}  // namespace
}  // namespace llmd::kv_events
