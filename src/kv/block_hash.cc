#include "kv/block_hash.h"

#include "chain_links.h"

#include "base/check.h"
#include "codec/json_text.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace llmd::kv {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tokens are hashed as they lie in memory");

using request::Piece;

constexpr size_t kTokenBytes = sizeof(uint32_t);
/// Text is unescaped in place behind the open group; with so much room at least, there is progress.
constexpr size_t kSlackBytes = 64;
/// The longest escape is a surrogate pair of 12 bytes: where none of the 11 bytes before a place is
/// a backslash, no escape reaches across it.
constexpr size_t kEscapeReach = 11;

/// Length of what stands at the start of `text`: a plain byte, an escape, or a pair of escapes that
/// mean one character.
size_t unit_size(std::string_view text) {
  if (text[0] != '\\') return 1;
  if (text[1] != 'u') return 2;
  const bool high_surrogate =
      (text[2] | 0x20) == 'd' && std::string_view("89abAB").contains(text[3]);
  return high_surrogate && text.substr(6, 2) == "\\u" ? 12 : 6;
}

/// How much of `text` to unescape at once: as much as `limit` allows without cutting an escape.
/// Requires: limit >= 12 or limit >= text.size().
size_t safe_part(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  size_t cut = limit;
  while (cut > kEscapeReach) {
    const auto last = text.substr(cut - kEscapeReach, kEscapeReach).rfind('\\');
    if (last == std::string_view::npos) return cut;
    cut = cut - kEscapeReach + last;
  }
  // Escapes all the way: walk over them.
  cut = 0;
  for (size_t next = 0; next <= limit; next += unit_size(text.substr(next))) cut = next;
  return cut;
}

/// Cuts what it is fed into blocks. Groups of blocks that lie in the input as they are needed are
/// hashed there; the others are put together in a buffer first.
class Chain {
 public:
  Chain(uint64_t seed, size_t block_bytes, size_t prompt_bytes, std::span<uint64_t> out,
        Arena& arena)
      : links_(seed, block_bytes, out.data()),
        block_bytes_(block_bytes),
        group_bytes_(block_bytes * kBlocksAtOnce),
        buffer_(static_cast<char*>(
            arena.allocate(std::min(group_bytes_, prompt_bytes) + kSlackBytes, 1))),
        out_(out),
        room_(block_bytes * out.size()) {}

  bool full() const { return room_ == 0; }

  void feed(const char* data, size_t size) {
    size = std::min(size, room_);
    room_ -= size;
    if (filled_ > 0) {
      const size_t part = std::min(size, group_bytes_ - filled_);
      std::memcpy(buffer_ + filled_, data, part);
      advance(part);
      data += part;
      size -= part;
    }
    for (; size >= group_bytes_; data += group_bytes_, size -= group_bytes_)
      links_.add(data, kBlocksAtOnce);
    if (size > 0) std::memcpy(buffer_ + filled_, data, size);
    filled_ += size;
  }

  void feed_escaped(std::string_view text) {
    while (!text.empty() && !full()) {
      const size_t take = safe_part(text, group_bytes_ + kSlackBytes - filled_);
      const size_t size =
          std::min(room_, codec::unescape_json(text.substr(0, take), buffer_ + filled_));
      room_ -= size;
      advance(size);
      text.remove_prefix(take);
    }
  }

  void feed_token(uint32_t token, uint32_t times) {
    align();
    for (; times > 0 && !full(); --times) feed(reinterpret_cast<const char*>(&token), kTokenBytes);
  }

  /// Pads the open token with zeros.
  void align() {
    constexpr char kZeros[kTokenBytes] = {};
    if (const size_t over = filled_ % kTokenBytes; over > 0) feed(kZeros, kTokenBytes - over);
  }

  std::span<const uint64_t> finish() {
    align();
    const size_t whole = filled_ / block_bytes_;
    links_.add(buffer_, whole);
    links_.finish(buffer_ + whole * block_bytes_, filled_ % block_bytes_);
    const size_t fed = block_bytes_ * out_.size() - room_;
    return out_.first((fed + block_bytes_ - 1) / block_bytes_);
  }

 private:
  /// Counts bytes that were put behind the buffer's others, and hashes the group if it is full.
  void advance(size_t size) {
    filled_ += size;
    if (filled_ < group_bytes_) return;
    links_.add(buffer_, kBlocksAtOnce);
    filled_ -= group_bytes_;
    std::memcpy(buffer_, buffer_ + group_bytes_, filled_);
  }

  ChainLinks links_;
  const size_t block_bytes_;
  const size_t group_bytes_;
  char* const buffer_;  // the open group
  size_t filled_ = 0;
  const std::span<uint64_t> out_;
  size_t room_;  // bytes that are still to be hashed
};

}  // namespace

int64_t token_count(const request::Prompt& prompt) {
  if (!prompt.token_ids.empty()) return static_cast<int64_t>(prompt.token_ids.size());
  constexpr auto kBytes = static_cast<int64_t>(kTokenBytes);
  int64_t tokens = 0;
  int64_t open_bytes = 0;  // since the last placeholder
  for (const auto& piece : prompt.pieces) {
    if (piece.kind != Piece::Kind::kPlaceholder) {
      open_bytes += static_cast<int64_t>(piece.bytes);
      continue;
    }
    tokens += (open_bytes + kBytes - 1) / kBytes + piece.count;
    open_bytes = 0;
  }
  return tokens + (open_bytes + kBytes - 1) / kBytes;
}

uint64_t chain_seed(std::string_view model, std::string_view cache_salt) {
  if (cache_salt.empty()) return XXH64(model.data(), model.size(), 0);
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  XXH64_update(&state, model.data(), model.size());
  XXH64_update(&state, cache_salt.data(), cache_salt.size());
  return XXH64_digest(&state);
}

std::span<const uint64_t> block_hashes(const request::Prompt& prompt, uint64_t seed,
                                       size_t block_tokens, size_t blocks_max, Arena& arena) {
  CHECK(block_tokens > 0);
  const auto tokens = static_cast<size_t>(token_count(prompt));
  const size_t blocks = tokens / block_tokens + (tokens % block_tokens != 0);
  const auto out = arena.array<uint64_t>(std::min({blocks, blocks_max, kChainBlocksMax}));
  if (out.empty()) return {};
  const size_t block_bytes = block_tokens * kTokenBytes;
  Chain chain(seed, block_bytes, tokens * kTokenBytes, out, arena);
  if (!prompt.token_ids.empty()) {
    chain.feed(reinterpret_cast<const char*>(prompt.token_ids.data()), tokens * kTokenBytes);
    return chain.finish();
  }
  for (const auto& piece : prompt.pieces) {
    if (chain.full()) break;
    switch (piece.kind) {
      case Piece::Kind::kBytes:
        chain.feed(piece.text.data(), piece.text.size());
        break;
      case Piece::Kind::kEscaped:
        chain.feed_escaped(piece.text);
        break;
      case Piece::Kind::kPlaceholder:
        chain.feed_token(piece.token, piece.count);
        break;
    }
  }
  return chain.finish();
}

}  // namespace llmd::kv
