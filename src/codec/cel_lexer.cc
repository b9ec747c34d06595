#include "cel_lexer.h"

#include "base/text.h"

#include <array>
#include <charconv>

namespace llmd::codec::cel {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// The longer ones first.
constexpr std::string_view kSigns[] = {"&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*",
                                       "/",  "%",  "!",  "?",  ":",  ".",  ",", "(", ")", "[", "]"};

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
    return put(0x80 | (code & 0x3f));
  }
  if (code < 0x10000) {
    put(0xe0 | code >> 12);
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
  }
  put(0x80 | (code >> 6 & 0x3f));
  put(0x80 | (code & 0x3f));
}

std::unexpected<Error> bad(std::string_view why) {
  return fail(Code::kBadRequest, std::string(why));
}

}  // namespace

Result<Token> Lexer::next() {
  for (;;) {
    while (at_ < text_.size() && std::string_view(" \t\n\r\f").contains(text_[at_])) ++at_;
    if (!text_.substr(at_).starts_with("//")) break;
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
  Token token{.at = at_};
  const std::string_view rest = text_.substr(at_);
  if (rest.empty()) return token;
  const char second = rest.size() > 1 ? rest[1] : '\0';
  if (is_digit(rest[0]) || (rest[0] == '.' && is_digit(second))) return number();
  if (rest[0] == '\'' || rest[0] == '"' ||
      ((rest[0] | 32) == 'r' && (second == '\'' || second == '"')))
    return string();
  if (starts_name(rest[0])) {
    size_t size = 1;
    while (size < rest.size() && (starts_name(rest[size]) || is_digit(rest[size]))) ++size;
    token.kind = Token::Kind::kName;
    token.text = rest.substr(0, size);
    at_ += size;
    return token;
  }
  for (const auto sign : kSigns) {
    if (!rest.starts_with(sign)) continue;
    token.kind = Token::Kind::kSign;
    token.text = sign;
    at_ += sign.size();
    return token;
  }
  return bad("nothing of the language starts like this");
}

Result<Token> Lexer::number() {
  const size_t begin = at_;
  Token token{.kind = Token::Kind::kInt, .at = begin};
  const auto digits = [&] {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  const bool hex = text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X");
  if (hex) {
    at_ += 2;
    while (at_ < text_.size() && is_hex(text_[at_])) ++at_;
  } else {
    digits();
    if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
      token.kind = Token::Kind::kDouble;
      ++at_;
      digits();
    }
    if (take('e') || take('E')) {
      token.kind = Token::Kind::kDouble;
      if (!take('+')) take('-');
      digits();
    }
  }
  const std::string_view written = text_.substr(begin, at_ - begin);
  if (token.kind == Token::Kind::kDouble) {
    const auto real =
        parse_double(written[0] == '.' ? "0" + std::string(written) : std::string(written));
    if (!real) return bad("this is not a number");
    token.real = *real;
  } else {
    const char* const last = written.data() + written.size();
    const auto [end, error] =
        std::from_chars(written.data() + (hex ? 2 : 0), last, token.whole, hex ? 16 : 10);
    if (error != std::errc() || end != last) return bad("this whole number is too large");
    if (take('u') || take('U')) token.kind = Token::Kind::kUint;
  }
  if (at_ < text_.size() && (starts_name(text_[at_]) || is_digit(text_[at_])))
    return bad("this does not belong to a number");
  return token;
}

Result<Token> Lexer::string() {
  Token token{.kind = Token::Kind::kString, .at = at_};
  const bool raw = take('r') || take('R');
  const char quote = text_[at_++];
  if (text_.substr(at_).starts_with(std::string(2, quote)))
    return bad("triple quotes are not part of the subset");
  for (;;) {
    if (at_ >= text_.size() || text_[at_] == '\n' || text_[at_] == '\r')
      return bad("the string has no end");
    const char c = text_[at_++];
    if (c == quote) return token;
    if (c != '\\' || raw)
      token.string += c;
    else
      LLMD_TRY(escape(token.string));
  }
}

/// After a backslash.
Status Lexer::escape(std::string& out) {
  constexpr std::string_view kNames = "abfnrtv\\?\"'`";
  constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\?\"'`";
  if (at_ >= text_.size()) return bad("the string has no end");
  const char c = text_[at_];
  if (const size_t i = kNames.find(c); i != kNames.npos) {
    ++at_;
    out += kValues[i];
    return {};
  }
  if (take('x') || take('X')) return code_point(out, 2);
  if (take('u')) return code_point(out, 4);
  if (take('U')) return code_point(out, 8);
  if (c < '0' || c > '3') return bad("there is no such escape");
  uint32_t code = 0;
  for (int i = 0; i < 3; ++i, ++at_) {
    if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '7')
      return bad("an octal escape has three digits");
    code = code * 8 + static_cast<uint32_t>(text_[at_] - '0');
  }
  append_utf8(out, code);
  return {};
}

Status Lexer::code_point(std::string& out, size_t digits) {
  const std::string_view hex = text_.substr(at_, digits);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
  if (hex.size() < digits || error != std::errc() || end != hex.data() + hex.size())
    return bad("this escape needs more hexadecimal digits");
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    return bad("this escape is no character");
  at_ += digits;
  append_utf8(out, code);
  return {};
}

bool Lexer::take(char c) {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

}  // namespace llmd::codec::cel
