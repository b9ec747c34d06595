#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::render {

/// A JSON value that is written again as it came: members in their order, numbers as they were
/// spelt where a 64-bit integer does not hold them.
struct JsonTree {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  struct Member;
  Kind kind = Kind::kNull;
  std::string text;  // of scalars: as written, of strings unescaped
  std::vector<JsonTree> items;
  std::vector<Member> members;  // of a repeated key all values

  /// The last one of that name. Null for what is no object, too.
  const JsonTree* find(std::string_view key) const;
  /// Without spaces.
  std::string compact() const;
  /// As CPython's json.dumps() writes it: ", " and ": ", all but ASCII escaped.
  std::string python() const;
};

struct JsonTree::Member {
  std::string key;
  JsonTree value;
};

inline constexpr size_t kJsonTreeDepthMax = 512;
inline constexpr size_t kJsonTreeValuesMax = size_t{1} << 18;  // of 88 bytes
/// Nothing when the text is no JSON, is nested deeper or has more values.
std::optional<JsonTree> parse_json_tree(std::string_view text);

}  // namespace llmd::render
