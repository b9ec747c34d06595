#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::kv_shared {

/// That a pod holds a block, and how; a field of the block's hash in the shared index.
struct Entry {
  std::string pod;   // "address:port"
  std::string tier;  // medium, in small letters; "" of a speculative one
  bool speculative = false;
  std::optional<int64_t> group;  // cache group of a hybrid model

  bool operator==(const Entry&) const = default;
};

/// The field's bytes, which are what makes entries of different writers equal (spec 05 §3.3).
std::string encode(const Entry& entry);
/// Nothing when the bytes are no entry. Members may stand in any order, unknown ones are passed
/// over.
std::optional<Entry> decode(std::string_view field);

}  // namespace llmd::kv_shared
