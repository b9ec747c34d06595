#pragma once

#include "base/mutex.h"
#include "text/tokenizer.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <xxhash.h>

#include <list>
#include <span>
#include <string>
#include <string_view>

namespace llmd::text {

/// The tokens of texts, those used last. Found by hash and compared, so that no other text's are
/// given. Threading: any. Memory: at most `bytes_max`, of which a text has its bytes, four for each
/// token and kEntryBytes.
class TokenCache {
 public:
  static constexpr size_t kEntryBytes = 160;

  TokenCache(size_t bytes_max, const Metrics& metrics) : bytes_max_(bytes_max), metrics_(metrics) {}
  ~TokenCache();

  /// Appends the text's tokens, if it has them.
  bool find(std::string_view text, Tokens& out);
  void put(std::string_view text, std::span<const uint32_t> tokens);

 private:
  struct Entry {
    XXH128_hash_t hash;
    std::string text;
    Tokens tokens;
    size_t bytes() const;
  };
  struct Hash {
    size_t operator()(const XXH128_hash_t& hash) const { return hash.low64; }
  };
  struct Equal {
    bool operator()(const XXH128_hash_t& a, const XXH128_hash_t& b) const {
      return XXH128_isEqual(a, b) != 0;
    }
  };

  void drop_last() LLMD_REQUIRES(mutex_);
  void resize(size_t bytes) LLMD_REQUIRES(mutex_);

  const size_t bytes_max_;
  const Metrics metrics_;
  Mutex mutex_;
  std::list<Entry> entries_ LLMD_GUARDED_BY(mutex_);  // the one used last first
  boost::unordered_flat_map<XXH128_hash_t, std::list<Entry>::iterator, Hash, Equal> by_hash_
      LLMD_GUARDED_BY(mutex_);
  size_t bytes_ LLMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace llmd::text
