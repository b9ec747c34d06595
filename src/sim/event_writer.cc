#include "event_writer.h"

namespace llmd::sim {
namespace {

constexpr std::string_view kMedium = "GPU";
constexpr std::string_view kCacheKind = "full_attention";
constexpr uint32_t kGroup = 0;

}  // namespace

/// `fields` without the type. Arrays have them in the order in which maps name them.
void EventWriter::begin(std::string_view type, uint32_t fields) {
  ++count_;
  if (map()) {
    out_.map(fields + 1);
    out_.text("type");
  } else {
    out_.array(fields + 1);
  }
  out_.text(type);
}

void EventWriter::name(std::string_view field) {
  if (map()) out_.text(field);
}

void EventWriter::hash(const Digest& digest) {
  const uint64_t number = short_hash(digest);
  if (whole_hashes_)
    out_.bytes({reinterpret_cast<const char*>(digest.data()), digest.size()});
  else if (format_ == EventFormat::kSglang && number >> 63)
    out_.int64(static_cast<int64_t>(number));
  else
    out_.uint(number);
}

void EventWriter::optional_text(std::string_view text) {
  text.empty() ? out_.nil() : out_.text(text);
}

void EventWriter::stored(const StoredBlocks& run) {
  const bool sglang = format_ == EventFormat::kSglang;
  const bool salted = !run.parent && !run.cache_salt.empty();
  begin("BlockStored", sglang ? 6 + salted : 10);
  name("block_hashes");
  out_.array(static_cast<uint32_t>(run.blocks.size()));
  for (const Digest& block : run.blocks) hash(block);
  name("parent_block_hash");
  run.parent ? hash(*run.parent) : out_.nil();
  name("token_ids");
  out_.array(static_cast<uint32_t>(run.tokens.size()));
  for (const uint32_t token : run.tokens) out_.uint(token);
  name("block_size");
  out_.uint(run.block_tokens);
  name("lora_id");
  run.lora_id ? out_.uint(run.lora_id) : out_.nil();
  name("medium");
  out_.text(kMedium);
  if (sglang) {
    if (!salted) return;
    out_.map(1);
    out_.text("cache_salt");
    out_.text(run.cache_salt);
    return;
  }
  name("lora_name");
  optional_text(run.lora_name);
  name("extra_keys");
  extra_keys(run);
  name("group_idx");
  out_.uint(kGroup);
  name("kv_cache_spec_kind");
  out_.text(kCacheKind);
}

/// For each block nil, or what it has besides its tokens.
void EventWriter::extra_keys(const StoredBlocks& run) {
  out_.array(static_cast<uint32_t>(run.blocks.size()));
  for (size_t i = 0; i < run.blocks.size(); ++i) {
    const bool salted = i == 0 && !run.parent && !run.cache_salt.empty();
    const uint32_t extras = salted + !run.lora_name.empty();
    if (extras == 0) {
      out_.nil();
      continue;
    }
    out_.array(extras);
    if (!run.lora_name.empty()) out_.text(run.lora_name);
    if (salted) out_.text(run.cache_salt);
  }
}

void EventWriter::removed(const Digest& block) {
  const bool sglang = format_ == EventFormat::kSglang;
  begin("BlockRemoved", sglang ? 2 : 3);
  name("block_hashes");
  out_.array(1);
  hash(block);
  name("medium");
  out_.text(kMedium);
  if (sglang) return;
  name("group_idx");
  out_.uint(kGroup);
}

void EventWriter::cleared() {
  begin("AllBlocksCleared", 0);
}

std::string EventWriter::take_batch(double published, std::optional<uint32_t> rank) {
  std::string batch;
  batch.reserve(events_.size() + 16);
  codec::MsgpackWriter out(batch);
  out.array(3);
  out.real(published);
  out.array(count_);
  batch += events_;
  rank ? out.uint(*rank) : out.nil();
  events_.clear();
  count_ = 0;
  return batch;
}

}  // namespace llmd::sim
