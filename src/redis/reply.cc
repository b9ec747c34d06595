#include "redis/reply.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace llmd::redis {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

void append_head(std::string& out, char type, size_t number) {
  char digits[24];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  out += type;
  out.append(digits, end);
  out += kLineEnd;
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  return error == std::errc() && end == text.end() ? std::optional(value) : std::nullopt;
}

}  // namespace

void append_command_size(std::string& out, size_t words) {
  append_head(out, '*', words);
}

void append_word(std::string& out, std::string_view word) {
  append_head(out, '$', word.size());
  out += word;
  out += kLineEnd;
}

void append_command(std::string& out, std::initializer_list<std::string_view> words) {
  append_command_size(out, words.size());
  for (const auto word : words) append_word(out, word);
}

size_t ReplyScanner::scan(std::string_view bytes) {
  while (left_ != 0 && left_ != SIZE_MAX && step(bytes)) {
  }
  if (left_ == SIZE_MAX || at_ > bytes_max_) return kBad;
  if (left_ == 0) return at_;
  return bytes.size() < bytes_max_ ? kMore : kBad;
}

bool ReplyScanner::step(std::string_view bytes) {
  const size_t end = bytes.find(kLineEnd, std::max(at_, line_at_));
  if (end == bytes.npos) {
    // The last byte may be the first of the line's end.
    line_at_ = std::max(at_, bytes.size() - std::min<size_t>(bytes.size(), 1));
    return bytes.size() > at_ && std::string_view("+-:$*").find(bytes[at_]) == bytes.npos ? refuse()
                                                                                          : false;
  }
  if (end == at_) return refuse();
  const char type = bytes[at_];
  size_t next = end + kLineEnd.size();
  size_t values = 0;
  if (type != '+' && type != '-') {
    const auto number = number_in(bytes.substr(at_ + 1, end - at_ - 1));
    if (!number || (type != ':' && type != '$' && type != '*')) return refuse();
    if (type != ':' && *number < -1) return refuse();
    if (type != ':' && *number > 0 && static_cast<size_t>(*number) > bytes_max_ - left_)
      return refuse();  // whatever follows
    if (type == '$' && *number >= 0) {
      const size_t size = static_cast<size_t>(*number);
      if (bytes.size() - next < size + kLineEnd.size()) {
        line_at_ = end;
        return next + size + kLineEnd.size() > bytes_max_ ? refuse() : false;
      }
      next += size;
      if (!bytes.substr(next).starts_with(kLineEnd)) return refuse();
      next += kLineEnd.size();
    }
    if (type == '*' && *number > 0) values = static_cast<size_t>(*number);
  }
  at_ = line_at_ = next;
  left_ = left_ - 1 + values;
  return true;
}

Reply::Reply(std::string_view bytes) {
  const size_t end = bytes.find(kLineEnd);
  const std::string_view line = bytes.substr(1, end - 1);
  rest_ = bytes.substr(end + kLineEnd.size());
  text_ = line;
  if (bytes[0] == '+') type_ = Type::kStatus;
  if (bytes[0] == '-') type_ = Type::kError;
  if (bytes[0] == ':') type_ = Type::kInteger;
  if (bytes[0] != '$' && bytes[0] != '*') return;
  text_ = {};
  const int64_t number = number_in(line).value_or(-1);
  if (number < 0) return;  // there is no such thing
  type_ = bytes[0] == '$' ? Type::kText : Type::kList;
  if (type_ == Type::kText) text_ = rest_.substr(0, static_cast<size_t>(number));
  if (type_ == Type::kList) size_ = static_cast<size_t>(number);
}

}  // namespace llmd::redis
