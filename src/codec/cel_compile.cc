#include "cel_lexer.h"
#include "cel_program.h"

#include "base/text.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace llmd::codec {
namespace cel {
namespace {

using Kind = Token::Kind;

struct Operator {
  std::string_view sign;
  Op op;
};
/// From the weakest to the strongest; all group to the left.
constexpr size_t kLevels = 5;
constexpr std::pair<size_t, Operator> kOperators[] = {
    {0, {"||", Op::kOr}},       {1, {"&&", Op::kAnd}},          {2, {"==", Op::kEqual}},
    {2, {"!=", Op::kNotEqual}}, {2, {"<", Op::kLess}},          {2, {"<=", Op::kLessEqual}},
    {2, {">", Op::kGreater}},   {2, {">=", Op::kGreaterEqual}}, {2, {"in", Op::kInMap}},
    {3, {"+", Op::kAdd}},       {3, {"-", Op::kSubtract}},      {4, {"*", Op::kMultiply}},
    {4, {"/", Op::kDivide}},    {4, {"%", Op::kModulo}},
};

struct Function {
  std::string_view name;
  Op op;
  bool method;      // callee.name(…)
  size_t operands;  // the callee counts
};
constexpr Function kFunctions[] = {
    {"size", Op::kSize, false, 1},
    {"int", Op::kInt, false, 1},
    {"uint", Op::kUint, false, 1},
    {"double", Op::kDouble, false, 1},
    {"string", Op::kString, false, 1},
    {"bool", Op::kBool, false, 1},
    {"dyn", Op::kDyn, false, 1},
    {"has", Op::kHas, false, 1},
    {"size", Op::kSize, true, 1},
    {"contains", Op::kContains, true, 2},
    {"startsWith", Op::kStartsWith, true, 2},
    {"endsWith", Op::kEndsWith, true, 2},
};

constexpr std::string_view kReserved[] = {
    "as",       "break",   "const",  "continue", "else", "false", "for",
    "function", "if",      "import", "in",       "let",  "loop",  "namespace",
    "null",     "package", "return", "true",     "var",  "void",  "while"};

/// A parser that stops at the first error: from then on every token is the end.
class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string_view> variables, Program& program)
      : lexer_(text), variables_(variables), program_(program) {}

  Status run() {
    program_.variables = variables_.size();
    advance();
    expression();
    if (token_.kind != Kind::kEnd) wrong("the expression has ended before this");
    if (error_) return fail(std::move(*error_));
    return {};
  }

 private:
  using Index = uint16_t;

  // --- tokens

  void advance() {
    if (error_) return;
    auto next = lexer_.next();
    if (next)
      token_ = std::move(*next);
    else
      wrong_at(lexer_.position(), next.error().message);
  }

  Index wrong_at(size_t at, std::string_view why) {
    if (!error_)
      error_ = Error{Code::kBadRequest,
                     "at character " + std::to_string(at + 1) + ": " + std::string(why),
                     {}};
    token_ = {};
    return 0;
  }
  Index wrong(std::string_view why) { return wrong_at(token_.at, why); }

  bool is(std::string_view text) const {
    return (token_.kind == Kind::kSign || token_.kind == Kind::kName) && token_.text == text;
  }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    advance();
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) wrong("'" + std::string(text) + "' is expected");
  }

  // --- nodes

  Index add(Node node, std::initializer_list<Index> operands = {}) {
    return add(node, std::span<const Index>(operands.begin(), operands.size()));
  }
  Index add(Node node, std::span<const Index> operands) {
    if (error_) return 0;
    node.first = static_cast<Index>(program_.operands.size());
    node.count = static_cast<Index>(operands.size());
    node.constant = node.op != Op::kVariable;
    size_t depth = 0;
    for (const Index i : operands) {
      const Node& operand = program_.nodes[i];
      depth = std::max<size_t>(depth, operand.depth);
      node.constant = node.constant && operand.constant;
      program_.operands.push_back(i);
    }
    if (depth + 1 > kCelDepthMax) return wrong("the expression is nested too deeply");
    node.depth = static_cast<uint8_t>(depth + 1);
    program_.nodes.push_back(node);
    const auto index = static_cast<Index>(program_.nodes.size() - 1);
    if (program_.nodes[index].constant) check_constant(index);
    return index;
  }

  /// Operands that no variable can change must go together.
  void check_constant(Index index) {
    Arena arena(256);
    const auto value = evaluate(program_, index, {}, arena);
    if (!value && value.error().what == kNoOverload) wrong(value.error().text());
  }

  std::string_view keep(std::string text) { return program_.texts.emplace_back(std::move(text)); }

  // --- grammar

  Index expression() {
    if (++nesting_ > kCelDepthMax) return wrong("the expression is nested too deeply");
    Index result = binary(0);
    if (take("?")) {
      const Index yes = binary(0);
      expect(":");
      const Index no = expression();
      result = add({.op = Op::kChoose, .name = "?:"}, {result, yes, no});
    }
    --nesting_;
    return result;
  }

  const Operator* operator_at(size_t level) const {
    for (const auto& [at, entry] : kOperators)
      if (at == level && is(entry.sign)) return &entry;
    return nullptr;
  }

  Index binary(size_t level) {
    if (level == kLevels) return unary();
    Index left = binary(level + 1);
    while (const Operator* found = operator_at(level)) {
      advance();
      if (found->op == Op::kInMap && is("["))
        left = in_list(left);
      else
        left = add({.op = found->op, .name = found->sign}, {left, binary(level + 1)});
    }
    return left;
  }

  Index in_list(Index value) {
    std::vector<Index> operands = {value};
    advance();
    while (!error_ && !is("]")) {
      operands.push_back(expression());
      if (!take(",")) break;
    }
    expect("]");
    return add({.op = Op::kInList, .name = "in"}, operands);
  }

  Index unary() {
    for (const auto& [sign, op] : {Operator{"!", Op::kNot}, Operator{"-", Op::kNegate}}) {
      if (!is(sign)) continue;
      size_t count = 0;
      for (; take(sign); ++count) {
      }
      // The least int has no positive counterpart.
      const bool least =
          op == Op::kNegate && token_.kind == Kind::kInt && token_.whole == 1ull << 63;
      if (least) --count;
      Index operand = least ? literal(INT64_MIN) : member();
      for (; count > 0 && !error_; --count) operand = add({.op = op, .name = sign}, {operand});
      return operand;
    }
    return member();
  }

  Index member() {
    Index result = primary();
    for (;;) {
      if (take(".")) {
        const std::string_view name = token_.text;
        if (token_.kind != Kind::kName) return wrong("the name of a field is expected");
        advance();
        if (is("("))
          result = call(name, result);
        else
          result = add({.op = Op::kSelect, .name = keep(std::string(name))}, {result});
      } else if (take("[")) {
        const Index key = expression();
        expect("]");
        result = add({.op = Op::kIndex, .name = "[]"}, {result, key});
      } else {
        return result;
      }
    }
  }

  Index primary() {
    switch (token_.kind) {
      case Kind::kInt:
        if (token_.whole > INT64_MAX) return wrong("this int is too large; a uint ends in u");
        return literal(static_cast<int64_t>(token_.whole));
      case Kind::kUint:
        return literal(token_.whole);
      case Kind::kDouble:
        return literal(token_.real);
      case Kind::kString:
        return literal(keep(std::move(token_.string)));
      case Kind::kName:
        return name();
      default:
        break;
    }
    if (take("(")) {
      const Index inner = expression();
      expect(")");
      return inner;
    }
    if (is("[")) return wrong("lists are understood only after 'in'");
    return wrong("a value is expected");
  }

  Index literal(CelValue value) {
    advance();
    return add({.op = Op::kLiteral, .value = value});
  }

  Index name() {
    const std::string_view word = token_.text;
    const size_t at = token_.at;
    if (word == "true" || word == "false") return literal(word == "true");
    if (word == "null") return literal(std::monostate());
    if (std::ranges::find(kReserved, word) != std::end(kReserved))
      return wrong("'" + std::string(word) + "' is a reserved word");
    advance();
    if (is("(")) return call(word, std::nullopt);
    const auto found = std::ranges::find(variables_, word);
    if (found == variables_.end())
      return wrong_at(
          at, "there is no variable '" + std::string(word) + "'" + suggestion(word, variables_));
    return add(
        {.op = Op::kVariable, .variable = static_cast<uint16_t>(found - variables_.begin())});
  }

  /// At the parenthesis after a function's name.
  Index call(std::string_view name, std::optional<Index> callee) {
    const size_t at = token_.at;
    std::vector<Index> operands;
    if (callee) operands.push_back(*callee);
    expect("(");
    while (!error_ && !is(")")) {
      operands.push_back(expression());
      if (!take(",")) break;
    }
    expect(")");
    if (error_) return 0;
    std::vector<std::string_view> known;
    const Function* function = nullptr;
    for (const auto& f : kFunctions) {
      if (f.method != callee.has_value()) continue;
      known.push_back(f.name);
      if (f.name == name) function = &f;
    }
    if (!function)
      return wrong_at(at, "there is no function '" + std::string(name) + "' in the subset" +
                              suggestion(name, known));
    if (operands.size() != function->operands)
      return wrong_at(at, "'" + std::string(name) + "' does not take " +
                              std::to_string(operands.size() - (callee ? 1 : 0)) + " arguments");
    if (function->op != Op::kHas)
      return add({.op = function->op, .name = function->name}, operands);
    Node& field = program_.nodes[operands[0]];
    if (field.op != Op::kSelect) return wrong_at(at, "'has' takes a field, as in has(a.b)");
    field.op = Op::kHas;
    return operands[0];
  }

  Lexer lexer_;
  std::span<const std::string_view> variables_;
  Program& program_;
  Token token_;
  std::optional<Error> error_;
  size_t nesting_ = 0;
};

}  // namespace
}  // namespace cel

Result<Cel> Cel::compile(std::string_view text, std::span<const std::string_view> variables) {
  if (text.size() > kCelBytesMax)
    return fail(Code::kBadRequest,
                "the expression has more than " + std::to_string(kCelBytesMax) + " bytes");
  auto program = std::make_shared<cel::Program>();
  LLMD_TRY(cel::Parser(text, variables, *program).run());
  return Cel(std::move(program));
}

}  // namespace llmd::codec
