#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// Request keys: what the precise index calls the blocks of a prompt (spec 05 §2). The same tokens,
/// model and extras give the same keys on the request's way and on that of engine events, whatever
/// the engine's own hashes are.
namespace llmd::kv {

enum class KeyAlgorithm : uint8_t {
  kCborFnv,  // FNV-1a of the canonical CBOR of [parent, tokens, extras]
  kXxh64,    // XXH64 of parent, tokens and extras as they lie in memory, little-endian
};

/// A feature string of one block that is hashed with its tokens: the identifier of an image, the
/// cache salt. Lists of extras are sorted by block, those of one block in the order of hashing.
struct Extra {
  size_t block = 0;
  std::string_view text;
  bool salt = false;  // of the first block, behind the others

  bool operator==(const Extra&) const = default;
};

/// Where the tokens of an image, a video or a sound stand in a prompt.
struct MediaItem {
  std::string_view identifier;
  size_t offset = 0;  // tokens
  size_t length = 0;  // tokens
};

/// Threading: immutable, from any thread.
class BlockKeys {
 public:
  /// Requires: block_tokens > 0. The three are fixed for the life of an index.
  BlockKeys(KeyAlgorithm algorithm, std::string_view hash_seed, size_t block_tokens);

  size_t block_tokens() const { return block_tokens_; }
  /// Blocks that `tokens` tokens fill; a shorter rest has no key.
  size_t blocks_of(size_t tokens) const { return tokens / block_tokens_; }

  /// The parent of the first blocks of a model. Requests for a LoRA adapter name the adapter.
  uint64_t root(std::string_view model) const;

  /// The keys of all whole blocks of `tokens`, the first of which follows `parent`. Extras beyond
  /// the last block are left out. Requires: keys.size() == blocks_of(tokens.size()); the texts of
  /// `extras` are sorted by block.
  /// Cost: no allocation. Each key depends on the one before, which bounds the speed: with 16
  /// tokens a block about 60 cycles a block for XXH64, 4 cycles a byte of CBOR for FNV.
  void chain(uint64_t parent, std::span<const uint32_t> tokens, std::span<const Extra> extras,
             std::span<uint64_t> keys) const;

 private:
  const KeyAlgorithm algorithm_;
  const size_t block_tokens_;
  const uint64_t seed_;
};

/// At most so many extras come of one prompt; what is beyond is left out, its blocks never match.
inline constexpr size_t kExtrasMax = size_t{1} << 18;

/// The extras of a request: every item that has an identifier, in each block that it overlaps, in
/// ascending order of their offsets, then the salt in the first block.
std::vector<Extra> request_extras(std::vector<MediaItem> items, std::string_view salt,
                                  size_t tokens, size_t block_tokens);

/// The extras of engine blocks as extras of index blocks, for `engine_blocks` and `index_blocks`
/// over the same tokens. Where several engine blocks fall into one index block, an identifier
/// counts once and the salt comes last; where one spans several, each gets its identifiers and the
/// first the salt.
std::vector<Extra> realign_extras(std::span<const Extra> extras, size_t engine_blocks,
                                  size_t index_blocks);

}  // namespace llmd::kv
