#include "cel_program.h"

#include "base/check.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <compare>
#include <limits>
#include <utility>

namespace llmd::codec {
namespace cel {
namespace {

using Value = std::expected<CelValue, CelFault>;
using Null = std::monostate;

std::unexpected<CelFault> fault(std::string_view what, std::string_view which) {
  return std::unexpected(CelFault{what, which});
}

constexpr std::string_view kOverflow = "overflow";
constexpr std::string_view kRange = "value out of range";

// --- comparisons

/// `T` is int64_t or uint64_t, whose values lie in [lowest, beyond).
template <class T>
std::partial_ordering against_double(T a, double b, double lowest, double beyond) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= beyond) return std::partial_ordering::less;
  if (b < lowest) return std::partial_ordering::greater;
  const double whole = std::trunc(b);
  const auto t = static_cast<T>(whole);
  if (a != t) return a <=> t;
  return whole <=> b;
}

std::partial_ordering compare(int64_t a, int64_t b) {
  return a <=> b;
}
std::partial_ordering compare(uint64_t a, uint64_t b) {
  return a <=> b;
}
std::partial_ordering compare(double a, double b) {
  return a <=> b;
}
std::partial_ordering compare(int64_t a, uint64_t b) {
  return a < 0 ? std::partial_ordering::less
               : std::partial_ordering(static_cast<uint64_t>(a) <=> b);
}
std::partial_ordering compare(int64_t a, double b) {
  return against_double(a, b, -0x1p63, 0x1p63);
}
std::partial_ordering compare(uint64_t a, double b) {
  return against_double(a, b, 0, 0x1p64);
}
template <class A, class B>
std::partial_ordering compare(A a, B b) {
  return 0 <=> compare(b, a);
}

template <class T>
inline constexpr bool kIsNumber =
    std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t> || std::is_same_v<T, double>;

/// Nothing for values that have no order between them.
std::optional<std::partial_ordering> order(const CelValue& a, const CelValue& b) {
  return std::visit(
      [](auto x, auto y) -> std::optional<std::partial_ordering> {
        using X = decltype(x);
        using Y = decltype(y);
        if constexpr (kIsNumber<X> && kIsNumber<Y>)
          return compare(x, y);
        else if constexpr (std::is_same_v<X, Y> &&
                           (std::is_same_v<X, bool> || std::is_same_v<X, std::string_view>))
          return x <=> y;
        else
          return std::nullopt;
      },
      a, b);
}

/// Values of different kinds are unlike. A map is like itself only.
bool equal(const CelValue& a, const CelValue& b) {
  if (const auto ordering = order(a, b)) return *ordering == 0;
  return a == b;
}

// --- arithmetic

template <class T>
Value whole_arithmetic(const Node& node, T a, T b) {
  T result{};
  bool overflow = false;
  switch (node.op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    default:
      if (b == 0)
        return fault(node.op == Op::kDivide ? "division by zero" : "modulus by zero", node.name);
      if constexpr (std::is_signed_v<T>)
        if (a == std::numeric_limits<T>::min() && b == -1) return fault(kOverflow, node.name);
      result = node.op == Op::kDivide ? a / b : a % b;
  }
  if (overflow) return fault(kOverflow, node.name);
  return result;
}

Value real_arithmetic(const Node& node, double a, double b) {
  switch (node.op) {
    case Op::kAdd:
      return a + b;
    case Op::kSubtract:
      return a - b;
    case Op::kMultiply:
      return a * b;
    case Op::kDivide:
      return a / b;
    default:
      return fault(kNoOverload, node.name);
  }
}

Value joined(std::string_view a, std::string_view b, Arena& arena) {
  if (b.empty()) return a;
  const auto both = arena.array<char>(a.size() + b.size());
  std::ranges::copy(b, std::ranges::copy(a, both.begin()).out);
  return std::string_view(both.data(), both.size());
}

Value arithmetic(const Node& node, const CelValue& a, const CelValue& b, Arena& arena) {
  if (a.index() != b.index()) return fault(kNoOverload, node.name);
  if (const auto* x = std::get_if<int64_t>(&a))
    return whole_arithmetic(node, *x, std::get<int64_t>(b));
  if (const auto* x = std::get_if<uint64_t>(&a))
    return whole_arithmetic(node, *x, std::get<uint64_t>(b));
  if (const auto* x = std::get_if<double>(&a))
    return real_arithmetic(node, *x, std::get<double>(b));
  if (const auto* x = std::get_if<std::string_view>(&a); x && node.op == Op::kAdd)
    return joined(*x, std::get<std::string_view>(b), arena);
  return fault(kNoOverload, node.name);
}

Value negated(const Node& node, const CelValue& a) {
  if (const auto* x = std::get_if<double>(&a)) return -*x;
  const auto* x = std::get_if<int64_t>(&a);
  if (!x) return fault(kNoOverload, node.name);
  if (*x == std::numeric_limits<int64_t>::min()) return fault(kOverflow, node.name);
  return -*x;
}

// --- conversions

template <class T>
Value whole_of(const Node& node, const CelValue& a, double lowest, double beyond) {
  if (const auto* x = std::get_if<double>(&a)) {
    if (!(*x >= lowest && *x < beyond)) return fault(kRange, node.name);
    return static_cast<T>(*x);
  }
  if (const auto* x = std::get_if<int64_t>(&a)) {
    if (!std::in_range<T>(*x)) return fault(kRange, node.name);
    return static_cast<T>(*x);
  }
  if (const auto* x = std::get_if<uint64_t>(&a)) {
    if (!std::in_range<T>(*x)) return fault(kRange, node.name);
    return static_cast<T>(*x);
  }
  if (const auto* x = std::get_if<std::string_view>(&a)) {
    T number{};
    std::string_view digits = *x;
    if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size())
      return fault("not a number", node.name);
    return number;
  }
  return fault(kNoOverload, node.name);
}

Value real_of(const Node& node, const CelValue& a) {
  if (const auto* x = std::get_if<int64_t>(&a)) return static_cast<double>(*x);
  if (const auto* x = std::get_if<uint64_t>(&a)) return static_cast<double>(*x);
  if (std::holds_alternative<double>(a)) return a;
  if (const auto* x = std::get_if<std::string_view>(&a)) {
    if (const auto number = parse_double(*x)) return *number;
    return fault("not a number", node.name);
  }
  return fault(kNoOverload, node.name);
}

Value text_of(const Node& node, const CelValue& a, Arena& arena) {
  std::array<char, 40> digits;
  const auto write = [&](auto number) -> Value {
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return arena.copy({digits.data(), static_cast<size_t>(end - digits.data())});
  };
  if (std::holds_alternative<std::string_view>(a)) return a;
  if (const auto* x = std::get_if<bool>(&a)) return std::string_view(*x ? "true" : "false");
  if (const auto* x = std::get_if<int64_t>(&a)) return write(*x);
  if (const auto* x = std::get_if<uint64_t>(&a)) return write(*x);
  if (const auto* x = std::get_if<double>(&a)) return write(*x);
  return fault(kNoOverload, node.name);
}

Value truth_of(const Node& node, const CelValue& a) {
  if (std::holds_alternative<bool>(a)) return a;
  const auto* x = std::get_if<std::string_view>(&a);
  if (!x) return fault(kNoOverload, node.name);
  constexpr std::string_view kTrue[] = {"1", "t", "T", "true", "TRUE", "True"};
  constexpr std::string_view kFalse[] = {"0", "f", "F", "false", "FALSE", "False"};
  if (std::ranges::find(kTrue, *x) != std::end(kTrue)) return true;
  if (std::ranges::find(kFalse, *x) != std::end(kFalse)) return false;
  return fault("neither true nor false", node.name);
}

Value size_of(const Node& node, const CelValue& a) {
  if (const auto* map = std::get_if<const CelMap*>(&a)) return static_cast<int64_t>((*map)->size());
  const auto* text = std::get_if<std::string_view>(&a);
  if (!text) return fault(kNoOverload, node.name);
  return static_cast<int64_t>(
      std::ranges::count_if(*text, [](char c) { return (c & 0xc0) != 0x80; }));
}

Value search(const Node& node, const CelValue& a, const CelValue& b) {
  const auto* text = std::get_if<std::string_view>(&a);
  const auto* part = std::get_if<std::string_view>(&b);
  if (!text || !part) return fault(kNoOverload, node.name);
  if (node.op == Op::kContains) return text->contains(*part);
  return node.op == Op::kStartsWith ? text->starts_with(*part) : text->ends_with(*part);
}

// --- the tree

class Evaluation {
 public:
  Evaluation(const Program& program, std::span<const CelValue> variables, Arena& arena)
      : program_(program), variables_(variables), arena_(arena) {}

  Value run(uint16_t index) const {
    const Node& node = program_.nodes[index];
    switch (node.op) {
      case Op::kLiteral:
        return node.value;
      case Op::kVariable:
        return variables_[node.variable];
      case Op::kChoose: {
        const auto condition = truth(node, 0);
        if (!condition) return std::unexpected(condition.error());
        return operand(node, *condition ? 1 : 2);
      }
      case Op::kOr:
        return either(node, true);
      case Op::kAnd:
        return either(node, false);
      case Op::kInList:
        return among(node);
      default:
        break;
    }
    const auto a = operand(node, 0);
    if (!a || node.count == 1) return a ? unary(node, *a) : a;
    const auto b = operand(node, 1);
    return b ? binary(node, *a, *b) : b;
  }

 private:
  Value operand(const Node& node, size_t i) const { return run(program_.operands[node.first + i]); }

  std::expected<bool, CelFault> truth(const Node& node, size_t i) const {
    const auto value = operand(node, i);
    if (!value) return std::unexpected(value.error());
    if (const auto* b = std::get_if<bool>(&*value)) return *b;
    return fault(kNoOverload, node.name);
  }

  /// The value `decisive` of one side decides, whatever the other is.
  Value either(const Node& node, bool decisive) const {
    const auto a = truth(node, 0);
    if (a && *a == decisive) return decisive;
    const auto b = truth(node, 1);
    if (b && *b == decisive) return decisive;
    if (!a) return std::unexpected(a.error());
    if (!b) return std::unexpected(b.error());
    return !decisive;
  }

  Value among(const Node& node) const {
    const auto value = operand(node, 0);
    if (!value) return value;
    bool found = false;
    for (size_t i = 1; i < node.count; ++i) {
      const auto item = operand(node, i);
      if (!item) return item;
      found = found || equal(*value, *item);
    }
    return found;
  }

  Value unary(const Node& node, const CelValue& a) const {
    switch (node.op) {
      case Op::kSelect:
        return member(node, a, node.name);
      case Op::kHas:
        if (const auto* map = std::get_if<const CelMap*>(&a))
          return (*map)->find(node.name).has_value();
        return fault(kNoOverload, "has");
      case Op::kNot:
        if (const auto* b = std::get_if<bool>(&a)) return !*b;
        return fault(kNoOverload, node.name);
      case Op::kNegate:
        return negated(node, a);
      case Op::kSize:
        return size_of(node, a);
      case Op::kInt:
        return whole_of<int64_t>(node, a, -0x1p63, 0x1p63);
      case Op::kUint:
        return whole_of<uint64_t>(node, a, 0, 0x1p64);
      case Op::kDouble:
        return real_of(node, a);
      case Op::kString:
        return text_of(node, a, arena_);
      case Op::kBool:
        return truth_of(node, a);
      default:
        return a;
    }
  }

  Value binary(const Node& node, const CelValue& a, const CelValue& b) const {
    switch (node.op) {
      case Op::kEqual:
        return equal(a, b);
      case Op::kNotEqual:
        return !equal(a, b);
      case Op::kLess:
      case Op::kLessEqual:
      case Op::kGreater:
      case Op::kGreaterEqual:
        return ordered(node, a, b);
      case Op::kIndex:
        if (const auto* key = std::get_if<std::string_view>(&b)) return member(node, a, *key);
        return fault(kNoOverload, node.name);
      case Op::kInMap:
        if (const auto* map = std::get_if<const CelMap*>(&b)) {
          const auto* key = std::get_if<std::string_view>(&a);
          return key && (*map)->find(*key);
        }
        return fault(kNoOverload, node.name);
      case Op::kContains:
      case Op::kStartsWith:
      case Op::kEndsWith:
        return search(node, a, b);
      default:
        return arithmetic(node, a, b, arena_);
    }
  }

  static Value ordered(const Node& node, const CelValue& a, const CelValue& b) {
    const auto ordering = order(a, b);
    if (!ordering) return fault(kNoOverload, node.name);
    switch (node.op) {
      case Op::kLess:
        return *ordering < 0;
      case Op::kLessEqual:
        return *ordering <= 0;
      case Op::kGreater:
        return *ordering > 0;
      default:
        return *ordering >= 0;
    }
  }

  static Value member(const Node& node, const CelValue& a, std::string_view key) {
    const auto* map = std::get_if<const CelMap*>(&a);
    if (!map) return fault(kNoOverload, node.name);
    const auto value = (*map)->find(key);
    if (!value) return fault("no such key", key);
    return *value;
  }

  const Program& program_;
  const std::span<const CelValue> variables_;
  Arena& arena_;
};

}  // namespace

Value evaluate(const Program& program, uint16_t node, std::span<const CelValue> variables,
               Arena& arena) {
  return Evaluation(program, variables, arena).run(node);
}

}  // namespace cel

std::string CelFault::text() const {
  std::string out(what);
  if (!which.empty()) out.append(": '").append(which).append("'");
  return out;
}

std::expected<CelValue, CelFault> Cel::evaluate(std::span<const CelValue> variables,
                                                Arena& arena) const {
  CHECK(variables.size() == program_->variables);
  return cel::evaluate(*program_, static_cast<uint16_t>(program_->nodes.size() - 1), variables,
                       arena);
}

}  // namespace llmd::codec
