#pragma once

#include "base/text.h"

#include <optional>
#include <span>
#include <string_view>

namespace llmd {

/// One header line. Views; the owner is whoever read the bytes.
struct HeaderField {
  std::string_view name;
  std::string_view value;
};

/// The headers of one message in wire order, duplicates included. Cost of a look-up: one comparison
/// a line.
class HeaderView {
 public:
  HeaderView() = default;
  HeaderView(std::span<const HeaderField> fields)
      : fields_(fields) {}  // NOLINT: views convert freely

  /// The first value of `name` (compared without case), or nothing.
  std::optional<std::string_view> find(std::string_view name) const {
    for (const auto& field : fields_)
      if (field.name.size() == name.size() && equals_ignore_case(field.name, name))
        return field.value;
    return std::nullopt;
  }
  /// The first value of `name`, or "".
  std::string_view get(std::string_view name) const {
    return find(name).value_or(std::string_view{});
  }

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  size_t size() const { return fields_.size(); }

 private:
  std::span<const HeaderField> fields_;
};

}  // namespace llmd
