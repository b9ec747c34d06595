#include "plugin/params.h"

#include "base/text.h"

#include <charconv>
#include <cmath>

namespace llmd::plugin::values {
namespace {

using codec::Node;

std::string quoted(const Node& node) {
  switch (node.type) {
    case Node::Type::kList:
      return "a list";
    case Node::Type::kMap:
      return "a map";
    case Node::Type::kNull:
      return "null";
    case Node::Type::kString:
      return to_json(node.text);
    default:
      return node.text;
  }
}

std::string with_article(std::string_view noun) {
  const bool vowel = noun.find_first_of("aeiou") == 0;
  return (vowel ? "an " : "a ") + std::string(noun);
}

Status wrong(const Node& node, std::string_view expected) {
  const std::string_view found = codec::type_name(node.type);
  std::string message = "must be " + with_article(expected) + ", not " + quoted(node);
  const bool scalar = node.type != Node::Type::kList && node.type != Node::Type::kMap &&
                      node.type != Node::Type::kNull;
  if (scalar) message += " (" + with_article(found) + ")";
  return fail(Code::kBadRequest, std::move(message));
}

/// The number that bounds apply to: durations count in seconds.
std::optional<double> magnitude(const Node& node) {
  if (node.type == Node::Type::kString) {
    const auto duration = parse_duration(node.text);
    if (!duration) return std::nullopt;
    return seconds(*duration);
  }
  return parse_double(node.text);
}

std::string short_number(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

Rule bound(std::string limits, std::function<bool(double)> holds) {
  auto test = [limits, holds = std::move(holds)](const Node& node) -> Status {
    const auto value = magnitude(node);
    if (!value || holds(*value)) return {};
    return fail(Code::kBadRequest, "must be " + limits + ", not " + quoted(node));
  };
  return {std::move(limits), std::move(test)};
}

}  // namespace

Rule at_least(double lowest) {
  return bound(">= " + short_number(lowest), [=](double v) { return v >= lowest; });
}

Rule at_most(double highest) {
  return bound("<= " + short_number(highest), [=](double v) { return v <= highest; });
}

Rule above_zero() {
  return bound("> 0", [](double v) { return v > 0; });
}

Rule among(std::vector<std::string_view> values) {
  std::string limits;
  for (const auto value : values)
    limits += (limits.empty() ? "one of " : ", ") + ("'" + std::string(value) + "'");
  auto test = [limits, values = std::move(values)](const Node& node) -> Status {
    for (const auto value : values)
      if (node.text == value) return {};
    return fail(Code::kBadRequest,
                "must be " + limits + ", not " + quoted(node) + suggestion(node.text, values));
  };
  return {std::move(limits), std::move(test)};
}

Status each_item(const Node& node, const std::function<Status(const Node&)>& test) {
  if (node.type != Node::Type::kList) return test(node);
  for (const auto& item : node.items) LLMD_TRY(test(item));
  return {};
}

Status expect(const Node& node, Node::Type type) {
  if (node.type == type) return {};
  return wrong(node, codec::type_name(type));
}

Status read(const Node& node, bool& value) {
  LLMD_TRY(expect(node, Node::Type::kBool));
  value = to_lower(node.text) == "true";
  return {};
}

Result<int64_t> read_int(const Node& node, int64_t lowest, int64_t highest) {
  LLMD_TRY(expect(node, Node::Type::kInt));
  const std::string_view text = node.text;
  const auto value = parse_int(text.starts_with('+') ? text.substr(1) : text);
  if (!value || *value < lowest || *value > highest)
    return fail(Code::kBadRequest, "must be an int from " + std::to_string(lowest) + " to " +
                                       std::to_string(highest) + ", not " + node.text);
  return *value;
}

Status read(const Node& node, double& value) {
  if (node.type != Node::Type::kInt && node.type != Node::Type::kFloat)
    return wrong(node, "number");
  const std::string_view text = node.text;
  const auto number = parse_double(text.starts_with('+') ? text.substr(1) : text);
  if (!number || !std::isfinite(*number))
    return fail(Code::kBadRequest, "must be a finite number, not " + node.text);
  value = *number;
  return {};
}

Status read(const Node& node, std::string& value) {
  LLMD_TRY(expect(node, Node::Type::kString));
  value = node.text;
  return {};
}

Status read(const Node& node, Nanos& value) {
  if (node.type != Node::Type::kString) return wrong(node, "duration such as \"5s\"");
  auto duration = parse_duration(node.text);
  if (!duration)
    return fail(Code::kBadRequest, "must be a duration such as \"5s\", not " + quoted(node));
  value = *duration;
  return {};
}

Status read(const Node& node, std::vector<std::string>& value) {
  LLMD_TRY(expect(node, Node::Type::kList));
  value.clear();
  for (const auto& item : node.items) LLMD_TRY(read(item, value.emplace_back()));
  return {};
}

Status read(const Node& node, std::map<std::string, std::string>& value) {
  LLMD_TRY(expect(node, Node::Type::kMap));
  value.clear();
  for (const auto& [name, member] : node.members) {
    if (auto status = read(member, value[name]); !status)
      return fail(std::move(status).error().in("'" + name + "'"));
  }
  return {};
}

std::string to_json(bool value) {
  return value ? "true" : "false";
}

std::string to_json(int64_t value) {
  return std::to_string(value);
}

std::string to_json(double value) {
  return short_number(value);
}

std::string to_json(const std::string& value) {
  std::string out = "\"";
  append_json_escaped(out, value);
  return out + "\"";
}

std::string to_json(Nanos value) {
  return to_json(format_duration(value));
}

std::string to_json(const std::vector<std::string>& value) {
  std::string out = "[";
  for (const auto& item : value) append_item(out, to_json(item));
  return out + "]";
}

std::string to_json(const std::map<std::string, std::string>& value) {
  std::string out = "{";
  for (const auto& [name, member] : value) append_member(out, name, to_json(member));
  return out + "}";
}

Status apply(const Node* node, std::span<const std::string_view> names,
             const std::function<Status(size_t, const Node&)>& set) {
  if (!node || node->is_null()) return {};
  if (node->type != Node::Type::kMap)
    return fail(Code::kBadRequest,
                node->where() + ": parameters must be a map, not " + quoted(*node));
  std::vector<bool> seen(names.size());
  for (const auto& member : node->members) {
    const auto& name = member.first;
    const auto& value = member.second;
    const auto error_at = [&](std::string_view text) {
      return fail(Code::kBadRequest,
                  value.where() + ": parameter '" + name + "': " + std::string(text));
    };
    size_t i = 0;
    while (i < names.size() && !equals_ignore_case(names[i], name)) ++i;
    if (i == names.size()) return error_at("unknown" + suggestion(name, names));
    if (seen[i]) return error_at("given twice");
    seen[i] = true;
    if (value.is_null()) continue;
    if (auto status = set(i, value); !status) {
      if (location_length(status.error().message, value.file) > 0) return status;
      return error_at(status.error().message);
    }
  }
  return {};
}

Status in_object(Status status, const Node& node, std::string_view path) {
  if (status) return status;
  std::string& message = status.error().message;
  constexpr std::string_view kOpening = "parameter '";
  const size_t at = location_length(message, node.file);
  if (message.compare(at, kOpening.size(), kOpening) == 0)
    message.insert(at + kOpening.size(), path);
  else  // not a map at all
    message = "must be a map, not " + quoted(node);
  return status;
}

void append_member(std::string& object, std::string_view name, std::string_view json) {
  if (object.size() > 1) object += ',';
  object += '"';
  append_json_escaped(object, name);
  object += "\":";
  object += json;
}

void append_item(std::string& list, std::string_view json) {
  if (list.size() > 1) list += ',';
  list += json;
}

size_t location_length(std::string_view message, std::string_view file) {
  if (!message.starts_with(file) || !message.substr(file.size()).starts_with(':')) return 0;
  const size_t digits = file.size() + 1;
  const size_t end = message.find_first_not_of("0123456789", digits);
  if (end == std::string_view::npos || end == digits || !message.substr(end).starts_with(": "))
    return 0;
  return end + 2;
}

}  // namespace llmd::plugin::values
