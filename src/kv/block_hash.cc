#include "kv/block_hash.h"

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
/// Escaped text is unescaped in parts of this size.
constexpr size_t kPartBytes = 4096;
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

class Chain {
 public:
  Chain(uint64_t seed, size_t block_bytes, size_t buffer_bytes, std::span<uint64_t> out,
        Arena& arena)
      : previous_(seed),
        block_bytes_(block_bytes),
        buffer_(static_cast<char*>(arena.allocate(buffer_bytes, alignof(uint64_t)))),
        out_(out) {}

  bool full() const { return count_ == out_.size(); }

  void feed(const char* data, size_t size) {
    if (filled_ > 0) {
      const size_t part = std::min(size, block_bytes_ - filled_);
      append(data, part);
      data += part;
      size -= part;
    }
    for (; size >= block_bytes_ && !full(); data += block_bytes_, size -= block_bytes_)
      emit(data, block_bytes_);
    if (size > 0 && !full()) append(data, size);
  }

  void feed_escaped(std::string_view text) {
    char part[kPartBytes];
    while (!text.empty() && !full()) {
      const size_t take = safe_part(text, kPartBytes);
      feed(part, codec::unescape_json(text.substr(0, take), part));
      text.remove_prefix(take);
    }
  }

  void feed_token(uint32_t token, uint32_t times) {
    align();
    for (; times > 0 && !full(); --times)
      append(reinterpret_cast<const char*>(&token), kTokenBytes);
  }

  /// Pads the open token with zeros.
  void align() {
    constexpr char kZeros[kTokenBytes] = {};
    if (const size_t over = filled_ % kTokenBytes; over > 0) append(kZeros, kTokenBytes - over);
  }

  std::span<const uint64_t> finish() {
    align();
    if (filled_ > 0 && !full()) emit(buffer_, filled_);
    return out_.first(count_);
  }

 private:
  /// Requires: the open block has room.
  void append(const char* data, size_t size) {
    if (full()) return;
    std::memcpy(buffer_ + filled_, data, size);
    filled_ += size;
    if (filled_ < block_bytes_) return;
    emit(buffer_, block_bytes_);
    filled_ = 0;
  }

  /// Flattened, so that the hash of the link, whose size is constant, loses its loops.
  [[gnu::flatten]] void emit(const char* block, size_t size) {
    const uint64_t link[2] = {XXH64(block, size, 0), previous_};
    previous_ = XXH64(link, sizeof link, 0);
    out_[count_++] = previous_;
  }

  uint64_t previous_;
  const size_t block_bytes_;
  char* const buffer_;  // the open block
  size_t filled_ = 0;
  const std::span<uint64_t> out_;
  size_t count_ = 0;
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
  Chain chain(seed, block_bytes, std::min(block_bytes, tokens * kTokenBytes), out, arena);
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
