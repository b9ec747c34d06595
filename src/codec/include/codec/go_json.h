#pragma once

#include "base/arena.h"

#include <string_view>

namespace llmd::codec {

/// `json`, a valid JSON value, rewritten as Go's encoding/json prints it after decoding it into an
/// `any`: no spaces, object keys in byte order, the last of repeated keys, numbers as float64, `<`,
/// `>` and `&` escaped. A number beyond float64 stays as it is. The reference router hashes tools
/// in this form. Requires: json.size() < 4 GiB. Cost: linear but for sorting the keys; memory about
/// 5 bytes an input byte at worst. The result and all scratch memory are in `arena`.
std::string_view go_json(std::string_view json, Arena& arena);

/// `json`, a valid JSON value, as Go prints one that it has kept raw: no spaces outside strings,
/// and in strings `<`, `>`, `&`, U+2028 and U+2029 escaped; all else as it is.
std::string_view go_raw_json(std::string_view json, Arena& arena);

/// `text` as a JSON string literal of Go, quotes included.
std::string_view go_json_string(std::string_view text, Arena& arena);

}  // namespace llmd::codec
