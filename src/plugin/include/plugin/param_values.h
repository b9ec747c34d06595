#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "codec/node.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Strict reading of single values and their spelling as JSON: the parts of parameter tables that
/// do not depend on the parameter struct. Errors name neither file nor line; callers add them.
namespace llmd::plugin::values {

/// A rule on one value, with its wording for the docs.
struct Rule {
  std::string limits;
  std::function<Status(const codec::Node&)> test;
};
Rule at_least(double lowest);
Rule at_most(double highest);
Rule above_zero();
Rule among(std::vector<std::string_view> values);
/// Tests `node`, or each item if it is a list.
Status each_item(const codec::Node& node, const std::function<Status(const codec::Node&)>& test);

/// Fails unless `node` has the type; the message says what is expected and what is there.
Status expect(const codec::Node& node, codec::Node::Type type);

Status read(const codec::Node& node, bool& value);
Status read(const codec::Node& node, double& value);
Status read(const codec::Node& node, std::string& value);
Status read(const codec::Node& node, Nanos& value);
Status read(const codec::Node& node, std::vector<std::string>& value);
Status read(const codec::Node& node, std::map<std::string, std::string>& value);
Result<int64_t> read_int(const codec::Node& node, int64_t lowest, int64_t highest);

template <std::integral T>
Status read(const codec::Node& node, T& value) {
  constexpr auto kLowest =
      std::is_unsigned_v<T> ? 0 : std::numeric_limits<std::make_signed_t<T>>::min();
  constexpr auto kHighest = sizeof(T) == 8 ? std::numeric_limits<int64_t>::max()
                                           : static_cast<int64_t>(std::numeric_limits<T>::max());
  LLMD_TRY_ASSIGN(const int64_t number, read_int(node, kLowest, kHighest));
  value = static_cast<T>(number);
  return {};
}
template <class T>
Status read(const codec::Node& node, std::optional<T>& value) {
  return read(node, value.emplace());
}

std::string to_json(bool value);
std::string to_json(int64_t value);
std::string to_json(double value);
std::string to_json(const std::string& value);
std::string to_json(Nanos value);
std::string to_json(const std::vector<std::string>& value);
std::string to_json(const std::map<std::string, std::string>& value);
template <std::integral T>
std::string to_json(T value) {
  return to_json(static_cast<int64_t>(value));
}
template <class T>
std::string to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : "null";
}

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// The type as docs name it.
template <class T>
constexpr std::string_view type_of() {
  if constexpr (kIsOptional<T>)
    return type_of<typename T::value_type>();
  else if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else if constexpr (std::is_integral_v<T>)
    return "int";
  else if constexpr (std::is_floating_point_v<T>)
    return "float";
  else if constexpr (std::is_same_v<T, std::string>)
    return "string";
  else if constexpr (std::is_same_v<T, Nanos>)
    return "duration";
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return "list of string";
  else
    return "map";
}

/// Calls `set(i, value)` for every member of `node` that matches names[i]. Requires: `node`
/// outlives the call.
Status apply(const codec::Node* node, std::span<const std::string_view> names,
             const std::function<Status(size_t, const codec::Node&)>& set);
/// Puts the path of an enclosing object in front of the parameter that an error of a nested table
/// names.
Status in_object(Status status, const codec::Node& node, std::string_view path);

void append_member(std::string& object, std::string_view name, std::string_view json);
void append_item(std::string& list, std::string_view json);

/// Length of the "FILE:LINE: " at the start of a message about the document `file`; 0: there is
/// none.
size_t location_length(std::string_view message, std::string_view file);

}  // namespace llmd::plugin::values
