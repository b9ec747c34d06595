#pragma once

#include "base/keyed_hash.h"
#include "base/result.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace llmd::frontend {

/// What is known of a client by its API key.
struct ApiClient {
  std::string fairness_id;  // ""; as the client says
  std::string objective;    // the same
};

/// The API keys that clients may use. Only their SHA-256 digests are kept. A line of the file is
///
///   KEY|sha256:HEX [fairness-id=ID] [objective=NAME]
///
/// with the key itself or the digest of it in hex; blank lines and lines that begin with `#` say
/// nothing. Threading: immutable.
class ApiKeys {
 public:
  static constexpr size_t kKeysMax = 100'000;
  static constexpr size_t kFileBytesMax = 16u << 20;
  static constexpr size_t kValueBytesMax = 128;  // of fairness-id and objective

  /// Errors name the line and what is wrong, never a key. A file without a key is an error.
  static Result<ApiKeys> parse(std::string_view text);

  /// Null: not a key. Cost: one SHA-256. Digests are looked up by a keyed hash and compared in
  /// constant time; how long that takes says nothing about keys.
  const ApiClient* find(std::string_view key) const;
  size_t size() const { return clients_.size(); }

 private:
  using Digest = std::array<uint8_t, 32>;
  struct DigestHash {
    size_t operator()(const Digest& digest) const;
  };
  struct DigestEqual {
    bool operator()(const Digest& a, const Digest& b) const;
  };
  static Digest digest_of(std::string_view key);
  static bool read_digest(std::string_view hex, Digest& digest);

  std::unordered_map<Digest, ApiClient, DigestHash, DigestEqual> clients_;
};

}  // namespace llmd::frontend
