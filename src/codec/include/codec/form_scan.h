#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// A form (multipart/form-data, RFC 7578) is read while it arrives, each byte once: the boundary is
/// searched for, the heads of parts are read, contents are passed over.
namespace llmd::codec {

inline constexpr size_t kFormBoundaryMax = 200;  // bytes; the standard has 70
inline constexpr size_t kFormPartsMax = 256;
inline constexpr size_t kFormHeadBytesMax = 8192;  // of one part

/// The boundary in a Content-Type; nothing unless it is multipart/form-data with a sound one.
std::optional<std::string_view> form_boundary(std::string_view content_type);

struct FormPart {
  std::string_view name;  // as written, valid during the call
  bool is_file = false;   // it has a file name
  size_t begin = 0;       // of the content, offsets in the body
  size_t end = 0;
};

/// Receives the parts in order, each when its end has been seen.
class FormSink {
 public:
  virtual void part(const FormPart& part) = 0;

 protected:
  ~FormSink() = default;
};

/// A line that begins with the boundary ends a part only if nothing but blanks follows on it, as
/// the standard has it; what stands before the first and after the last part is ignored.
/// Threading: one thread. Trivially destructible; no allocation.
class FormScanner {
 public:
  /// `delimiter` is "\r\n--" and the boundary. It and `sink` outlive the scanner.
  FormScanner(std::string_view delimiter, FormSink& sink) : delimiter_(delimiter), sink_(sink) {}

  /// `body` is the whole form so far: the bytes of earlier calls unchanged, though perhaps
  /// elsewhere in memory. False after an error; further calls do nothing.
  bool feed(std::string_view body);
  /// No more bytes follow. True if the form came to its end.
  bool finish();
  /// What is wrong; "" when nothing is. Static.
  std::string_view error() const { return error_; }

 private:
  enum class State : uint8_t { kStart, kContent, kDelimiter, kHead, kDone, kFailed };

  bool step(std::string_view body);
  bool start(std::string_view body);
  bool content(std::string_view body);
  bool delimiter(std::string_view body);
  bool head(std::string_view body);
  bool fail(std::string_view why);

  const std::string_view delimiter_;
  FormSink& sink_;
  State state_ = State::kStart;
  size_t at_ = 0;        // where reading goes on
  size_t boundary_ = 0;  // where the delimiter begins that is being read
  size_t head_ = 0;      // where the head of the open part begins
  size_t head_end_ = 0;
  size_t begin_ = 0;  // of the content of the open part; 0: there is none
  size_t parts_ = 0;
  std::string_view error_;
};

}  // namespace llmd::codec
