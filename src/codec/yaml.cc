#include "codec/node.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

namespace llmd::codec {
namespace {

constexpr size_t kDepthMax = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

size_t count_digits(std::string_view text, size_t at) {
  const size_t first = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return at - first;
}

/// The type of an unquoted scalar: null, booleans and decimal numbers of the YAML 1.2 core schema.
/// Hexadecimal and octal spellings are strings, as they are no JSON numbers.
Node::Type plain_type(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return Node::Type::kNull;
  for (std::string_view word : {"true", "True", "TRUE", "false", "False", "FALSE"})
    if (text == word) return Node::Type::kBool;
  const size_t sign = text[0] == '-' || text[0] == '+' ? 1 : 0;
  for (std::string_view word : {".inf", ".Inf", ".INF"})
    if (text.substr(sign) == word) return Node::Type::kFloat;
  for (std::string_view word : {".nan", ".NaN", ".NAN"})
    if (text == word) return Node::Type::kFloat;

  size_t at = sign;
  const size_t whole = count_digits(text, at);
  at += whole;
  if (whole > 0 && at == text.size()) return Node::Type::kInt;
  size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    fraction = count_digits(text, at + 1);
    at += 1 + fraction;
  }
  if (whole + fraction == 0) return Node::Type::kString;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t exponent = count_digits(text, at);
    if (exponent == 0) return Node::Type::kString;
    at += exponent;
  }
  return at == text.size() ? Node::Type::kFloat : Node::Type::kString;
}

/// What the builder throws through the parser's frames; caught in parse_yaml.
struct Refusal {
  int line;
  std::string message;
};

[[noreturn]] void refuse(const YAML::Mark& mark, std::string message) {
  throw Refusal{mark.line + 1, std::move(message)};
}

/// Builds the tree from the parser's events, and refuses what a configuration has no use for.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::string_view file) : file_(file) {
    root.file = file_;
    root.line = 1;
  }

  Node root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_anchor(mark, anchor);
    if (wants_key()) refuse(mark, "a map key must be a string, not null");
    add(mark, Node::Type::kNull);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not supported");
  }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    refuse(mark, "anchors (&" + name + ") are not supported");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    if (wants_key()) {
      Level& level = levels_.back();
      if (!level.keys.insert(value).second) refuse(mark, "duplicate key '" + value + "'");
      level.node.members.emplace_back(value, Node{});
      level.has_key = true;
      return;
    }
    add(mark, tag == "?" ? plain_type(value) : Node::Type::kString).text = value;
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Type::kList);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Type::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Node node;
    bool has_key = false;  // maps: the last member waits for its value
    std::unordered_set<std::string> keys;
  };

  static void check_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) refuse(mark, "anchors (&name) are not supported");
  }
  /// "?" stands for an untagged plain value or collection, "!" for a quoted scalar.
  static void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, "tags (" + tag + ") are not supported");
  }

  bool wants_key() const {
    return !levels_.empty() && levels_.back().node.type == Node::Type::kMap &&
           !levels_.back().has_key;
  }

  Node make(const YAML::Mark& mark, Node::Type type) const {
    Node node;
    node.type = type;
    node.file = file_;
    node.line = mark.line + 1;
    return node;
  }

  Node& place(Node node) {
    if (levels_.empty()) return root = std::move(node);
    Level& level = levels_.back();
    if (level.node.type == Node::Type::kList) {
      level.node.items.push_back(std::move(node));
      return level.node.items.back();
    }
    level.has_key = false;
    return level.node.members.back().second = std::move(node);
  }

  Node& add(const YAML::Mark& mark, Node::Type type) { return place(make(mark, type)); }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Type type) {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    if (wants_key()) refuse(mark, "a map key must be a string, not a list or map");
    if (levels_.size() >= kDepthMax)
      refuse(mark, "nesting deeper than " + std::to_string(kDepthMax) + " levels");
    levels_.push_back({make(mark, type), false, {}});
  }

  void close() {
    Node node = std::move(levels_.back().node);
    levels_.pop_back();
    place(std::move(node));
  }

  std::string file_;
  std::vector<Level> levels_;
};

std::unexpected<Error> fail_at(std::string_view file, int line, std::string_view message) {
  return fail(Code::kBadRequest,
              std::string(file) + ":" + std::to_string(line) + ": " + std::string(message));
}

}  // namespace

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

std::string Node::where() const {
  return file + ":" + std::to_string(line);
}

std::string_view type_name(Node::Type type) {
  switch (type) {
    case Node::Type::kNull:
      return "null";
    case Node::Type::kBool:
      return "bool";
    case Node::Type::kInt:
      return "int";
    case Node::Type::kFloat:
      return "float";
    case Node::Type::kString:
      return "string";
    case Node::Type::kList:
      return "list";
    case Node::Type::kMap:
      return "map";
  }
  return "unknown";
}

Result<Node> parse_yaml(std::string_view text, std::string_view file, size_t max_bytes) {
  if (text.size() > max_bytes)
    return fail_at(file, 1,
                   "document of " + std::to_string(text.size()) + " bytes exceeds the limit of " +
                       std::to_string(max_bytes));
  if (const size_t nul = text.find('\0'); nul != text.npos)
    return fail_at(file, 1 + static_cast<int>(std::count(text.begin(), text.begin() + nul, '\n')),
                   "a zero byte is no YAML");
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(file);
    if (!parser.HandleNextDocument(builder)) return std::move(builder.root);
    Builder second(file);
    if (parser.HandleNextDocument(second))
      return fail_at(file, second.root.line, "more than one document");
    return std::move(builder.root);
  } catch (const Refusal& refusal) {
    return fail_at(file, refusal.line, refusal.message);
  } catch (const YAML::Exception& e) {
    std::string message = e.msg;
    std::replace(message.begin(), message.end(), '\n', ' ');
    return fail_at(file, e.mark.is_null() ? 1 : e.mark.line + 1, message);
  } catch (const std::exception& e) {
    return fail_at(file, 1, e.what());
  }
}

}  // namespace llmd::codec
