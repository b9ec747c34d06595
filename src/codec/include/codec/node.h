#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::codec {

/// A parsed YAML or JSON document: a tree of scalars, lists and maps that remembers where each
/// value stood. Scalars keep JSON's types by YAML 1.2 core rules: a quoted scalar is a string, an
/// unquoted one may be null, bool, int or float.
struct Node {
  enum class Type : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kMap };

  Type type = Type::kNull;
  std::string text;                                   // scalars: the text as written, unquoted
  std::vector<Node> items;                            // lists
  std::vector<std::pair<std::string, Node>> members;  // maps, in document order, keys unique
  std::string file;  // for messages; shared by all nodes of a document
  int line = 0;      // 1-based

  // Out of line: the members hold Nodes, which is incomplete up to here.
  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  bool is_null() const { return type == Type::kNull; }
  /// The member named `key`, or null.
  const Node* find(std::string_view key) const;
  /// "FILE:LINE"
  std::string where() const;
};

std::string_view type_name(Node::Type type);

/// Parses one YAML (or JSON, its subset) document. Errors: syntax, duplicate keys, aliases and
/// anchors, more than `max_bytes`, nesting over 64; each names file and line.
Result<Node> parse_yaml(std::string_view text, std::string_view file, size_t max_bytes = 1 << 20);

}  // namespace llmd::codec
