#include "codec/form_scan.h"

#include "base/text.h"

#include <algorithm>

namespace llmd::codec {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

/// The next `name` or `name=value` of a header's value, whose quotes are taken off.
struct Parameter {
  std::string_view name;
  std::string_view value;
};
std::optional<Parameter> next_parameter(std::string_view& rest) {
  const size_t start = rest.find_first_not_of("; \t");
  if (start == rest.npos) return std::nullopt;
  rest.remove_prefix(start);
  const size_t name_end = std::min(rest.find_first_of(";="), rest.size());
  Parameter parameter{trim(rest.substr(0, name_end)), {}};
  const bool has_value = name_end < rest.size() && rest[name_end] == '=';
  rest.remove_prefix(std::min(name_end + (has_value ? 1 : 0), rest.size()));
  if (!has_value) return parameter;
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  if (!rest.starts_with('"')) {
    const size_t end = std::min(rest.find(';'), rest.size());
    parameter.value = trim(rest.substr(0, end));
    rest.remove_prefix(end);
    return parameter;
  }
  size_t end = 1;
  while (end < rest.size() && rest[end] != '"') end += rest[end] == '\\' ? 2 : 1;
  end = std::min(end, rest.size());
  parameter.value = rest.substr(1, end - 1);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return parameter;
}

/// What the head of a part says of it.
void read_head(std::string_view head, FormPart& part) {
  constexpr std::string_view kName = "content-disposition:";
  while (!head.empty()) {
    const size_t end = std::min(head.find(kLineEnd), head.size());
    std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
    if (!equals_ignore_case(line.substr(0, kName.size()), kName)) continue;
    line.remove_prefix(kName.size());
    while (const auto parameter = next_parameter(line)) {
      if (equals_ignore_case(parameter->name, "name")) part.name = parameter->value;
      if (equals_ignore_case(parameter->name, "filename") ||
          equals_ignore_case(parameter->name, "filename*"))
        part.is_file = true;
    }
    return;
  }
}

}  // namespace

std::optional<std::string_view> form_boundary(std::string_view content_type) {
  const auto type = next_parameter(content_type);
  if (!type || !equals_ignore_case(type->name, "multipart/form-data")) return std::nullopt;
  while (const auto parameter = next_parameter(content_type)) {
    if (!equals_ignore_case(parameter->name, "boundary")) continue;
    const auto boundary = parameter->value;
    const bool sound = !boundary.empty() && boundary.size() <= kFormBoundaryMax &&
                       boundary.back() != ' ' &&
                       std::ranges::all_of(boundary, [](char c) { return c >= ' ' && c < 0x7f; });
    return sound ? std::optional(boundary) : std::nullopt;
  }
  return std::nullopt;
}

bool FormScanner::feed(std::string_view body) {
  while (state_ != State::kFailed && state_ != State::kDone && step(body)) {
  }
  return state_ != State::kFailed;
}

bool FormScanner::finish() {
  if (state_ != State::kDone && state_ != State::kFailed) fail("the form has no end");
  return state_ == State::kDone;
}

/// False: there are not enough bytes, or it failed.
bool FormScanner::step(std::string_view body) {
  switch (state_) {
    case State::kStart:
      return start(body);
    case State::kContent:
      return content(body);
    case State::kDelimiter:
      return delimiter(body);
    case State::kHead:
      return head(body);
    case State::kDone:
    case State::kFailed:
      break;
  }
  return false;
}

/// The first delimiter may lack its line end.
bool FormScanner::start(std::string_view body) {
  const auto first = delimiter_.substr(kLineEnd.size());
  const size_t have = std::min(body.size(), first.size());
  if (body.substr(0, have) != first.substr(0, have)) {
    state_ = State::kContent;
    return true;
  }
  if (have < first.size()) return false;
  at_ = first.size();
  state_ = State::kDelimiter;
  return true;
}

bool FormScanner::content(std::string_view body) {
  const size_t found = body.find(delimiter_, at_);
  if (found == body.npos) {
    if (body.size() >= delimiter_.size())
      at_ = std::max(at_, body.size() - (delimiter_.size() - 1));
    return false;
  }
  boundary_ = found;
  at_ = found + delimiter_.size();
  state_ = State::kDelimiter;
  return true;
}

/// After a delimiter: "--" ends the form, a line end begins a part, all else was content.
bool FormScanner::delimiter(std::string_view body) {
  const size_t blanks_end = std::min(body.find_first_not_of(" \t", at_), body.size());
  const std::string_view rest = body.substr(blanks_end);
  const bool last = body.substr(at_).starts_with("--");
  const bool line_ends = rest.starts_with(kLineEnd);
  if (!last && !line_ends) {
    if (rest.size() < 2 && (rest.empty() || rest == "\r" || (rest == "-" && blanks_end == at_)))
      return false;
    state_ = State::kContent;
    return true;
  }
  if (begin_ > 0) {
    FormPart part{.begin = begin_, .end = boundary_};
    read_head(body.substr(head_, head_end_ - head_), part);
    sink_.part(part);
  }
  if (last) {
    state_ = State::kDone;
    return true;
  }
  if (++parts_ > kFormPartsMax) return fail("the form has too many parts");
  head_ = at_ = blanks_end + kLineEnd.size();
  state_ = State::kHead;
  return true;
}

bool FormScanner::head(std::string_view body) {
  const std::string_view rest = body.substr(head_);
  const bool empty = rest.starts_with(kLineEnd);
  const size_t end = empty ? head_ : body.find(kHeadEnd, at_);
  if (end == body.npos) {
    if (rest.size() > kFormHeadBytesMax + kHeadEnd.size())
      return fail("the head of a part is too large");
    at_ = std::max(head_, body.size() < kHeadEnd.size() ? 0 : body.size() - (kHeadEnd.size() - 1));
    return false;
  }
  if (end - head_ > kFormHeadBytesMax) return fail("the head of a part is too large");
  head_end_ = end;
  begin_ = at_ = end + (empty ? kLineEnd.size() : kHeadEnd.size());
  state_ = State::kContent;
  return true;
}

bool FormScanner::fail(std::string_view why) {
  error_ = why;
  state_ = State::kFailed;
  return false;
}

}  // namespace llmd::codec
