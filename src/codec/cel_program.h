#pragma once

#include "codec/cel.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace llmd::codec::cel {

enum class Op : uint8_t {
  kLiteral,
  kVariable,
  kSelect,  // operand . name
  kHas,
  kIndex,
  kChoose,
  kOr,
  kAnd,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kInMap,
  kInList,  // the first operand among the others
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kNot,
  kNegate,
  kSize,
  kContains,
  kStartsWith,
  kEndsWith,
  kInt,
  kUint,
  kDouble,
  kString,
  kBool,
  kDyn,
};

struct Node {
  Op op = Op::kLiteral;
  uint8_t depth = 1;
  bool constant = false;  // no variable below
  uint16_t first = 0;     // of its operands in Program::operands
  uint16_t count = 0;
  uint16_t variable = 0;  // kVariable
  CelValue value;         // kLiteral
  std::string_view name;  // what faults name: the operator, the function, the field
};

/// An expression as a tree whose nodes come after their operands; the last is the root. Does not
/// move: nodes refer to its texts.
struct Program {
  std::vector<Node> nodes;
  std::vector<uint16_t> operands;
  std::deque<std::string> texts;
  size_t variables = 0;
};

/// Requires: `variables` has a value for each variable below `node`.
std::expected<CelValue, CelFault> evaluate(const Program& program, uint16_t node,
                                           std::span<const CelValue> variables, Arena& arena);

/// The fault of operands whose types do not go together.
inline constexpr std::string_view kNoOverload = "no such overload";

}  // namespace llmd::codec::cel
