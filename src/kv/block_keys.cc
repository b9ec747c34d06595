#include "kv/block_keys.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <tuple>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace llmd::kv {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tokens are hashed as they lie in memory");

/// FNV-1a with 64 bits over CBOR items, as they are written.
class CborFnv {
 public:
  enum Major : uint8_t { kUnsigned = 0, kText = 3, kArray = 4, kMap = 5 };

  /// The head of an item, in as few bytes as its value allows.
  void head(Major major, uint64_t value) {
    const auto type = static_cast<uint8_t>(major << 5);
    if (value < 24) return byte(static_cast<uint8_t>(type | value));
    const int log_bytes = value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffffffff ? 2 : 3;
    byte(static_cast<uint8_t>(type | (24 + log_bytes)));
    for (int shift = (8 << log_bytes) - 8; shift >= 0; shift -= 8)
      byte(static_cast<uint8_t>(value >> shift));
  }
  void null() { byte(0xf6); }
  void text(std::string_view text) {
    head(kText, text.size());
    bytes(text);
  }
  void bytes(std::string_view text) {
    for (const char c : text) byte(static_cast<uint8_t>(c));
  }
  uint64_t value() const { return hash_; }

 private:
  void byte(uint8_t b) { hash_ = (hash_ ^ b) * 0x100000001b3; }

  uint64_t hash_ = 0xcbf29ce484222325;
};

uint64_t fnv_link(uint64_t parent, std::span<const uint32_t> tokens,
                  std::span<const Extra> extras) {
  CborFnv hash;
  hash.head(CborFnv::kArray, 3);
  hash.head(CborFnv::kUnsigned, parent);
  hash.head(CborFnv::kArray, tokens.size());
  for (const uint32_t token : tokens) hash.head(CborFnv::kUnsigned, token);
  if (extras.empty()) {
    hash.null();
    return hash.value();
  }
  hash.head(CborFnv::kArray, extras.size());
  for (const Extra& extra : extras) {
    hash.head(CborFnv::kMap, 1);
    hash.text("Hash");
    hash.text(extra.text);
  }
  return hash.value();
}

uint64_t fnv_root(uint64_t seed, std::string_view model) {
  CborFnv hash;
  hash.head(CborFnv::kArray, 3);
  hash.head(CborFnv::kUnsigned, seed);
  hash.null();
  hash.text(model);
  return hash.value();
}

// Of XXH64.
constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;
constexpr size_t kStripeBytes = 32;

template <class Word>
Word word_at(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
uint64_t absorbed(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

/// XXH64 of the parent followed by `size` bytes, with the parent in a register: it is the only word
/// that must wait for the link before, so all the rest of a block is hashed meanwhile.
uint64_t xxh64_link(uint64_t parent, const char* data, size_t size) {
  const size_t total = sizeof parent + size;
  const char* const end = data + size;
  uint64_t hash;
  if (total >= kStripeBytes) {
    uint64_t lanes[4] = {
        absorbed(kPrime1 + kPrime2, parent), absorbed(kPrime2, word_at<uint64_t>(data)),
        absorbed(0, word_at<uint64_t>(data + 8)), absorbed(-kPrime1, word_at<uint64_t>(data + 16))};
    for (data += 24; end - data >= static_cast<ptrdiff_t>(kStripeBytes); data += kStripeBytes)
      for (size_t i = 0; i < 4; ++i)
        lanes[i] = absorbed(lanes[i], word_at<uint64_t>(data + i * sizeof(uint64_t)));
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
           std::rotl(lanes[3], 18);
    for (const uint64_t lane : lanes) hash = (hash ^ absorbed(0, lane)) * kPrime1 + kPrime4;
    hash += total;
  } else {
    hash = kPrime5 + total;
    hash = std::rotl(hash ^ absorbed(0, parent), 27) * kPrime1 + kPrime4;
  }
  for (; end - data >= 8; data += 8)
    hash = std::rotl(hash ^ absorbed(0, word_at<uint64_t>(data)), 27) * kPrime1 + kPrime4;
  if (end - data >= 4)
    hash = std::rotl(hash ^ word_at<uint32_t>(data) * kPrime1, 23) * kPrime2 + kPrime3;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

uint64_t xxh64_link(uint64_t parent, std::span<const uint32_t> tokens,
                    std::span<const Extra> extras) {
  if (extras.empty())
    return xxh64_link(parent, reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  XXH64_update(&state, &parent, sizeof parent);
  if (!tokens.empty()) XXH64_update(&state, tokens.data(), tokens.size_bytes());
  for (const Extra& extra : extras) {
    const uint64_t size = extra.text.size();
    XXH64_update(&state, &size, sizeof size);
    XXH64_update(&state, extra.text.data(), extra.text.size());
  }
  return XXH64_digest(&state);
}

template <class Link>
void make_chain(uint64_t parent, std::span<const uint32_t> tokens, size_t block_tokens,
                std::span<const Extra> extras, std::span<uint64_t> keys, Link link) {
  size_t extra = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t first = extra;
    while (extra < extras.size() && extras[extra].block <= i) ++extra;
    parent = link(parent, tokens.subspan(i * block_tokens, block_tokens),
                  extras.subspan(first, extra - first));
    keys[i] = parent;
  }
}

}  // namespace

BlockKeys::BlockKeys(KeyAlgorithm algorithm, std::string_view hash_seed, size_t block_tokens)
    : algorithm_(algorithm), block_tokens_(block_tokens), seed_([&] {
        if (algorithm == KeyAlgorithm::kXxh64) return XXH64(hash_seed.data(), hash_seed.size(), 0);
        CborFnv hash;
        hash.bytes(hash_seed);
        return hash.value();
      }()) {
  CHECK(block_tokens > 0);
}

uint64_t BlockKeys::root(std::string_view model) const {
  if (algorithm_ == KeyAlgorithm::kCborFnv) return fnv_root(seed_, model);
  const Extra name{.text = model};
  return xxh64_link(seed_, {}, std::span(&name, 1));
}

void BlockKeys::chain(uint64_t parent, std::span<const uint32_t> tokens,
                      std::span<const Extra> extras, std::span<uint64_t> keys) const {
  CHECK(keys.size() == blocks_of(tokens.size()));
  if (algorithm_ == KeyAlgorithm::kCborFnv)
    make_chain(parent, tokens, block_tokens_, extras, keys, fnv_link);
  else
    make_chain(parent, tokens, block_tokens_, extras, keys,
               [](auto... args) { return xxh64_link(args...); });
}

std::vector<Extra> request_extras(std::vector<MediaItem> items, std::string_view salt,
                                  size_t tokens, size_t block_tokens) {
  std::vector<Extra> extras;
  const size_t blocks = tokens / block_tokens;
  if (blocks == 0) return extras;
  if (!salt.empty()) extras.push_back({.block = 0, .text = salt, .salt = true});
  std::ranges::stable_sort(items, {}, &MediaItem::offset);
  for (const MediaItem& item : items) {
    if (item.identifier.empty()) continue;
    const size_t end = std::min(item.offset + std::min(item.length, tokens), tokens);
    for (size_t block = item.offset / block_tokens; block < blocks; ++block) {
      if (end <= block * block_tokens || extras.size() >= kExtrasMax) break;
      extras.push_back({.block = block, .text = item.identifier});
    }
  }
  std::ranges::stable_sort(extras, {}, [](const Extra& e) { return std::tuple(e.block, e.salt); });
  return extras;
}

std::vector<Extra> realign_extras(std::span<const Extra> extras, size_t engine_blocks,
                                  size_t index_blocks) {
  std::vector<Extra> out;
  if (index_blocks == 0 || engine_blocks == 0) return out;
  if (engine_blocks == index_blocks) return {extras.begin(), extras.end()};
  if (engine_blocks < index_blocks) {
    for (const Extra& extra : extras) {
      const auto first = [&](size_t block) {  // of the index blocks that take from this one
        return (block * index_blocks + engine_blocks - 1) / engine_blocks;
      };
      const size_t end = extra.salt ? first(extra.block) + 1 : first(extra.block + 1);
      for (size_t block = first(extra.block); block < end && out.size() < kExtrasMax; ++block)
        out.push_back({.block = block, .text = extra.text, .salt = extra.salt});
    }
  } else {
    size_t first = 0;  // of the index block's extras
    for (const Extra& extra : extras) {
      const Extra here = {.block = extra.block * index_blocks / engine_blocks,
                          .text = extra.text,
                          .salt = extra.salt};
      if (first < out.size() && out[first].block != here.block) first = out.size();
      if (std::ranges::count(std::span(out).subspan(first), here) == 0) out.push_back(here);
    }
  }
  std::ranges::stable_sort(out, {}, [](const Extra& e) { return std::tuple(e.block, e.salt); });
  return out;
}

}  // namespace llmd::kv
