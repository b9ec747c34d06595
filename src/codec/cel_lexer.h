#pragma once

#include "base/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::codec::cel {

struct Token {
  enum class Kind : uint8_t { kEnd, kName, kInt, kUint, kDouble, kString, kSign };
  Kind kind = Kind::kEnd;
  size_t at = 0;          // its first byte
  std::string_view text;  // as written: names, operators
  uint64_t whole = 0;     // kInt, kUint: without a sign, which is an operator
  double real = 0;        // kDouble
  std::string string;     // kString: escapes resolved
};

/// Cuts an expression into tokens. The text outlives the lexer.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  /// The next token; kEnd after the last. Errors are without their place, which is position().
  Result<Token> next();
  size_t position() const { return at_; }

 private:
  Result<Token> number();
  Result<Token> string();
  Status escape(std::string& out);
  Status code_point(std::string& out, size_t digits);
  bool take(char c);

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace llmd::codec::cel
