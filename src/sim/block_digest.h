#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmd::sim {

/// What vLLM calls a block with all before it: a SHA-256 digest.
using Digest = std::array<uint8_t, 32>;

/// The digest as engines publish it in a number: its last eight bytes, the first one highest.
uint64_t short_hash(const Digest& digest);

/// What sets a block apart besides its tokens. Of an adapter every block has name and path; the
/// salt belongs to the first block of a prompt alone.
struct BlockExtras {
  std::string_view lora_name;  // "": the base model
  std::string_view lora_path;
  std::string_view cache_salt;

  bool empty() const { return lora_name.empty() && cache_salt.empty(); }
};

/// vLLM's block hashes of the kind sha256_cbor: SHA-256 over the canonical CBOR of [digest of the
/// block before, token ids, extras or null].
/// Threading: one thread. Cost: about 0.3 us a block of 16 tokens.
class DigestChain {
 public:
  /// `hash_seed`: PYTHONHASHSEED; "" stands for the text that vLLM takes when it is not set.
  explicit DigestChain(std::string_view hash_seed);
  ~DigestChain();

  /// What stands before the first block.
  const Digest& root() const { return root_; }
  Digest next(const Digest& parent, std::span<const uint32_t> tokens, const BlockExtras& extras);

 private:
  struct Sha256;
  std::unique_ptr<Sha256> sha256_;
  std::string cbor_;  // of the block under way
  Digest root_;
};

}  // namespace llmd::sim
