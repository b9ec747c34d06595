#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace llmd::codec {

/// Receives the data lines of an event stream. Views are valid during the call.
class SseSink {
 public:
  /// A whole line: what follows "data:" and one optional space, without the line end.
  virtual void data(std::string_view text) = 0;
  /// The next bytes of a line that does not fit the scanner's buffer; `first` and `last` mark its
  /// ends. The last part may be empty, and when the line ends in "\r\n" it ends in "\r".
  virtual void data_part(std::string_view text, bool first, bool last) = 0;

 protected:
  ~SseSink() = default;
};

/// Splits a server-sent event stream into lines and hands out those of the field "data". Lines end
/// in "\n" or "\r\n". Threading: one thread. Cost: one memchr pass; only a line that is split
/// between chunks is copied, into `buffer` (16 bytes at least). Trivially destructible; `sink` and
/// `buffer` outlive it.
class SseScanner {
 public:
  SseScanner(SseSink& sink, std::span<char> buffer) : sink_(sink), buffer_(buffer) {}

  void feed(std::string_view chunk);
  /// Hands out a last line that has no line end.
  void finish();

 private:
  enum class Mode : unsigned char {
    kHeld,  // the open line stands in the buffer so far
    kLong,  // it is a data line and goes out in parts
    kSkip,  // it is too long and no data line
  };

  void end_line(std::string_view rest);
  void hold(std::string_view part);
  void emit(std::string_view line);

  SseSink& sink_;
  std::span<char> buffer_;
  size_t held_ = 0;
  Mode mode_ = Mode::kHeld;
};

}  // namespace llmd::codec
