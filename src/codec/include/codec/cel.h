#pragma once

#include "base/arena.h"
#include "base/result.h"

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

/// A subset of the Common Expression Language (CEL), for expressions that an operator writes once
/// and that are evaluated for every request.
///
///   types        null, bool, int, uint, double, string, and maps that the host shows
///   literals     null true false 12 0xc 12u 1.5 1e3 'text' "text" r'raw' with CEL's escapes
///   operators    ?: || && == != < <= > >= in + - * / % ! and a leading -
///   members      map.field, map['field'], has(map.field)
///   lists        only as `x in [a, b]`; `'key' in map` asks for a key
///   functions    size contains startsWith endsWith, and the conversions int uint double string
///                bool dyn
///
/// As in CEL: both sides of an arithmetic operator have one type, numbers of different types
/// compare by value, && and || have a value when either side decides, whatever the other is, and
/// what overflows, divides by zero or asks for a key that is not there has none. Left out: other
/// lists, map literals, bytes, times, regular expressions, macros besides has(), triple quotes.
namespace llmd::codec {

inline constexpr size_t kCelBytesMax = 4096;
inline constexpr size_t kCelDepthMax = 64;

class CelMap;

/// std::monostate is null.
using CelValue =
    std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view, const CelMap*>;

/// A map from strings that the host shows to expressions.
class CelMap {
 public:
  /// Nothing when there is no such key.
  virtual std::optional<CelValue> find(std::string_view key) const = 0;
  virtual size_t size() const = 0;

 protected:
  ~CelMap() = default;
};

/// Why an expression has no value for these variables.
struct CelFault {
  std::string_view what;
  std::string_view which;  // the operator, function or key; may be empty

  std::string text() const;
};

namespace cel {
struct Program;
}

/// A compiled expression. Copies share it. Threading: immutable.
class Cel {
 public:
  /// `variables` are the names that evaluate() gives values to, in its order. Errors say at which
  /// character what is wrong, also of operands that no variable could make fit.
  static Result<Cel> compile(std::string_view text, std::span<const std::string_view> variables);

  /// Strings that are put together live in `arena`, others where the variables' do or as long as
  /// this. Cost: a few nanoseconds an operator, no allocation besides.
  std::expected<CelValue, CelFault> evaluate(std::span<const CelValue> variables,
                                             Arena& arena) const;

 private:
  explicit Cel(std::shared_ptr<const cel::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const cel::Program> program_;
};

}  // namespace llmd::codec
