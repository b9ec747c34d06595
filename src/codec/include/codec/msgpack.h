#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// MessagePack, by hand: KV events arrive by the hundred thousand a second and are read in one
/// pass, without a tree. Numbers of every width are the same number; text and bytes are views.
namespace llmd::codec {

/// Pulls values off the front of a message, one typed read at a time. A read of another type than
/// the next value's fails; where several types are allowed, ask next_kind() first.
///
/// A failed read makes the reader fail for good (ok() is false, the rest reads as malformed), so a
/// caller may check once after several reads. Nothing is read beyond the span, an announced count
/// is refused when the bytes left cannot hold it, and nothing recurses: no input costs more than a
/// pass over it. Threading: one thread. Views point into the message.
class MsgpackReader {
 public:
  enum class Kind : uint8_t {
    kNil,
    kBool,
    kInt,  // of any width, with or without sign
    kReal,
    kText,
    kBytes,
    kArray,
    kMap,
    kExtension,
    kNone,  // the end, a byte that starts nothing, or after a failure
  };

  explicit MsgpackReader(std::string_view message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool ok() const { return ok_; }
  /// Whether everything has been read.
  bool done() const { return at_ == end_; }
  /// Where the next value begins; with rewind() a failed reading can be undone.
  const char* position() const { return at_; }
  /// Requires: `position` comes from this reader. Clears a failure.
  void rewind(const char* position) {
    at_ = position;
    ok_ = true;
  }

  Kind next_kind() const;

  /// Whether the next value is nil; it is then consumed.
  bool take_nil() {
    if (!ok_ || at_ == end_ || tag() != 0xc0) return false;
    ++at_;
    return true;
  }
  /// A number of at least 0.
  bool read_uint(uint64_t& value);
  /// Any integer, a negative one as its two's complement.
  bool read_bits(uint64_t& value);
  /// A float of either width, or an integer as one.
  bool read_real(double& value);
  bool read_text(std::string_view& value) { return read_view(value, false); }
  /// Bytes or text.
  bool read_bytes(std::string_view& value) { return read_view(value, true); }
  bool read_array(uint32_t& count) { return read_header(count, 1); }
  /// `count` pairs follow.
  bool read_map(uint32_t& count) { return read_header(count, 2); }
  /// `out.size()` integers in [0, 2^32), as token ids come. Cost: no branch on their widths.
  bool read_uint32s(std::span<uint32_t> out);
  /// Passes over one value and all that is in it.
  bool skip();

 private:
  uint8_t tag() const { return static_cast<uint8_t>(*at_); }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  bool fail() {
    ok_ = false;
    return false;
  }
  bool read_view(std::string_view& value, bool bytes_too);
  bool read_header(uint32_t& count, uint32_t values_each);
  bool read_number(uint64_t& bits, bool& negative);

  const char* at_;
  const char* end_;
  bool ok_ = true;
};

/// Appends values to `out`, each in its shortest form unless the name says otherwise.
class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::string& out) : out_(out) {}

  void nil() { byte(0xc0); }
  void uint(uint64_t value);
  /// Always nine bytes, as hashes are written.
  void uint64(uint64_t value) { tagged(0xcf, value, 8); }
  /// Always five bytes.
  void uint32(uint32_t value) { tagged(0xce, value, 4); }
  /// Always nine bytes.
  void int64(int64_t value) { tagged(0xd3, static_cast<uint64_t>(value), 8); }
  void real(double value) { tagged(0xcb, std::bit_cast<uint64_t>(value), 8); }
  void text(std::string_view value);
  void bytes(std::string_view value);
  void array(uint32_t count) { header(count, 0x90, 0xdc); }
  void map(uint32_t count) { header(count, 0x80, 0xde); }

 private:
  void byte(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void tagged(uint8_t tag, uint64_t value, size_t bytes);
  void header(uint32_t count, uint8_t small, uint8_t wide);

  std::string& out_;
};

}  // namespace llmd::codec
