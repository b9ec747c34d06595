#pragma once

#include <string>
#include <string_view>

namespace llmd::codec {

/// Replaces one string value of one member wherever it stands in a text that passes through: JSON,
/// an event stream of JSON, anything. `"key": "from"` becomes `"key": "to"`, whatever white space
/// stands around the colon; nothing else changes. The text may be cut anywhere: what may be the
/// beginning of such a member is held until it is decided, and that is at most a few bytes more
/// than the member itself. Threading: one thread.
class JsonRename {
 public:
  /// Plain texts; they are escaped here.
  JsonRename(std::string_view key, std::string_view from, std::string_view to);

  /// The next bytes of the text, the last ones if `last`; what is to be passed on, valid until the
  /// next call. Cost where nothing is replaced or held: a search for the key, no copy.
  std::string_view pass(std::string_view text, bool last);

 private:
  /// White space that is accepted on one side of the colon.
  static constexpr size_t kSpaceMax = 16;

  enum class Match : uint8_t { kNo, kYes, kOpen };
  struct Found {
    Match match;
    size_t value = 0;  // kYes: where the old value stands, without quotes
  };
  Found match(std::string_view text, size_t at) const;

  const std::string key_;   // with quotes
  const std::string from_;  // with quotes
  const std::string to_;    // without
  std::string held_;
  std::string out_;
};

}  // namespace llmd::codec
