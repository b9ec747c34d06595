#include "json_tree.h"

#include "base/text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmd::render {
namespace {

using Kind = JsonTree::Kind;

/// Builds the tree from a parser's calls.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return put({.text = "null"}); }
  bool boolean(bool value) override {
    return put({.kind = Kind::kBool, .text = value ? "true" : "false"});
  }
  bool number_integer(number_integer_t value) override { return number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& spelt) override { return number(spelt); }
  bool string(string_t& value) override {
    return put({.kind = Kind::kString, .text = std::move(value)});
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Kind::kObject); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Kind::kArray); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    keys_.back() = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

  std::optional<JsonTree> take() { return std::move(root_); }

 private:
  bool number(std::string text) { return put({.kind = Kind::kNumber, .text = std::move(text)}); }
  bool open(Kind kind) {
    if (open_.size() == kJsonTreeDepthMax) return false;
    open_.push_back({.kind = kind});
    keys_.emplace_back();
    return true;
  }
  bool close() {
    JsonTree done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return put(std::move(done));
  }
  bool put(JsonTree value) {
    if (++values_ > kJsonTreeValuesMax) return false;
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (JsonTree& parent = open_.back(); parent.kind == Kind::kArray) {
      parent.items.push_back(std::move(value));
    } else {
      parent.members.push_back({std::move(keys_.back()), std::move(value)});
    }
    return true;
  }

  size_t values_ = 0;
  std::vector<JsonTree> open_;
  std::vector<std::string> keys_;  // of the members under way, by depth
  std::optional<JsonTree> root_;
};

/// Requires: valid UTF-8, which the parser has made sure of.
void append_ascii(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x7f) {
      if (byte == '\b')
        out += "\\b";
      else if (byte == '\f')
        out += "\\f";
      else
        append_json_escaped(out, text.substr(i, 1));
      continue;
    }
    const size_t more = byte < 0xc0 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    uint32_t point = more == 0 ? byte : byte & (0x3fu >> more);
    for (size_t k = 0; k < more && i + 1 < text.size(); ++k)
      point = point << 6 | (static_cast<unsigned char>(text[++i]) & 0x3fu);
    if (point > 0xffff) {
      point -= 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (point >> 10), 0xdc00 + (point & 0x3ff));
    } else {
      out += fmt::format("\\u{:04x}", point);
    }
  }
  out += '"';
}

struct Form {
  std::string_view between, after_key;
  bool ascii;
};

void append_string(std::string& out, std::string_view text, const Form& form) {
  if (form.ascii) return append_ascii(out, text);
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append(std::string& out, const JsonTree& value, const Form& form) {
  const auto each = [&](const auto& elements, char begin, char end, auto write) {
    out += begin;
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) out += form.between;
      write(elements[i]);
    }
    out += end;
  };
  switch (value.kind) {
    case Kind::kNull:
    case Kind::kBool:
    case Kind::kNumber:
      out += value.text;
      break;
    case Kind::kString:
      append_string(out, value.text, form);
      break;
    case Kind::kArray:
      each(value.items, '[', ']', [&](const JsonTree& item) { append(out, item, form); });
      break;
    case Kind::kObject:
      each(value.members, '{', '}', [&](const JsonTree::Member& member) {
        append_string(out, member.key, form);
        out += form.after_key;
        append(out, member.value, form);
      });
      break;
  }
}

}  // namespace

const JsonTree* JsonTree::find(std::string_view key) const {
  for (size_t i = members.size(); i > 0; --i)
    if (members[i - 1].key == key) return &members[i - 1].value;
  return nullptr;
}

std::string JsonTree::compact() const {
  std::string out;
  append(out, *this, {",", ":", false});
  return out;
}

std::string JsonTree::python() const {
  std::string out;
  append(out, *this, {", ", ": ", true});
  return out;
}

std::optional<JsonTree> parse_json_tree(std::string_view text) {
  Builder builder;
  if (!nlohmann::json::sax_parse(text, &builder)) return std::nullopt;
  return builder.take();
}

}  // namespace llmd::render
