#include "codec/sse_scan.h"

#include <cstring>

namespace llmd::codec {
namespace {

constexpr std::string_view kField = "data:";

std::string_view without_field(std::string_view line) {
  line.remove_prefix(kField.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

}  // namespace

void SseScanner::feed(std::string_view chunk) {
  while (!chunk.empty()) {
    const auto* newline = static_cast<const char*>(std::memchr(chunk.data(), '\n', chunk.size()));
    if (!newline) return hold(chunk);
    const auto size = static_cast<size_t>(newline - chunk.data());
    if (held_ == 0 && mode_ == Mode::kHeld) {
      emit(chunk.substr(0, size));
    } else {
      end_line(chunk.substr(0, size));
    }
    chunk.remove_prefix(size + 1);
  }
}

void SseScanner::finish() {
  if (held_ > 0 || mode_ != Mode::kHeld) end_line({});
}

/// Ends the open line, of which `rest` are the last bytes.
void SseScanner::end_line(std::string_view rest) {
  if (mode_ == Mode::kHeld && held_ + rest.size() > buffer_.size()) hold(rest), rest = {};
  if (mode_ == Mode::kHeld) {
    if (!rest.empty()) std::memcpy(buffer_.data() + held_, rest.data(), rest.size());
    emit({buffer_.data(), held_ + rest.size()});
  } else if (mode_ == Mode::kLong) {
    sink_.data_part(rest, false, true);
  }
  held_ = 0;
  mode_ = Mode::kHeld;
}

/// Keeps `part` of the open line, or passes it on when it no longer fits.
void SseScanner::hold(std::string_view part) {
  if (mode_ == Mode::kHeld && held_ + part.size() <= buffer_.size()) {
    if (!part.empty()) std::memcpy(buffer_.data() + held_, part.data(), part.size());
    held_ += part.size();
    return;
  }
  if (mode_ == Mode::kLong) return sink_.data_part(part, false, false);
  if (mode_ == Mode::kSkip) return;

  // The line overflows: its head decides what becomes of it. Fill the buffer so that the field name
  // stands whole.
  const size_t fill = buffer_.size() - held_;
  std::memcpy(buffer_.data() + held_, part.data(), fill);
  const std::string_view head(buffer_.data(), buffer_.size());
  mode_ = head.starts_with(kField) ? Mode::kLong : Mode::kSkip;
  if (mode_ == Mode::kSkip) return;
  sink_.data_part(without_field(head), true, false);
  sink_.data_part(part.substr(fill), false, false);
}

void SseScanner::emit(std::string_view line) {
  if (!line.starts_with(kField)) return;
  line = without_field(line);
  if (line.ends_with('\r')) line.remove_suffix(1);
  sink_.data(line);
}

}  // namespace llmd::codec
