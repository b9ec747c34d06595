#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The commands of the shared index (spec 05 §3.3). A block is a hash under its request key in
/// decimal digits, whose fields are entries without values; "engine:" and an engine key is a sorted
/// set of request keys, with their positions as scores. Nothing expires, nothing is prefixed.
/// Each function appends commands to `out` and returns how many, which is also how many replies
/// come.
namespace llmd::kv_shared {

inline constexpr std::string_view kEnginePrefix = "engine:";

/// Adds the entry to the blocks, and the blocks to what engine keys stand for (§3.2). Requires:
/// `keys` is not empty.
size_t append_store(std::string& out, std::string_view field, std::span<const uint64_t> keys,
                    std::span<const uint64_t> engine_keys);

/// Takes the entry from the blocks that the engine keys stand for; those of whose blocks none has
/// an entry left are forgotten.
size_t append_remove(std::string& out, std::string_view field,
                     std::span<const uint64_t> engine_keys);

/// The same by request keys.
size_t append_remove_keys(std::string& out, std::string_view field, std::span<const uint64_t> keys);

/// Takes all entries of the pod from the blocks of one page of a scan. The reply is the cursor of
/// the next page, "0" at the end.
size_t append_clear_page(std::string& out, std::string_view pod, std::string_view cursor);

/// The replies are lists of fields.
size_t append_look_up(std::string& out, std::span<const uint64_t> keys);

/// The reply is a list with the last request key that the engine key stands for, or an empty one.
size_t append_request_key(std::string& out, uint64_t engine_key);

}  // namespace llmd::kv_shared
