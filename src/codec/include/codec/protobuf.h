#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

/// The protobuf wire format, by hand: the few messages that this program speaks are read in one
/// pass as views and written straight into their frame, where generated classes would copy every
/// body twice. Field numbers stand in the code that uses them.
namespace llmd::codec {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// A field's number and wire type as one word, for use in a switch.
constexpr uint64_t proto_key(uint32_t field, WireType type) {
  return uint64_t{field} << 3 | static_cast<uint64_t>(type);
}
constexpr uint64_t proto_bytes(uint32_t field) {
  return proto_key(field, WireType::kBytes);
}
constexpr uint64_t proto_varint(uint32_t field) {
  return proto_key(field, WireType::kVarint);
}

/// Walks the fields of one message in wire order. A field whose wire type is not the expected one
/// is like an unknown field: skip it. Groups, which no message of ours has, are malformed. Views
/// point into the message. Cost: one pass, no allocation.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  /// Moves to the next field. False at the end and at the first malformed byte: ok() tells which.
  bool next();
  bool ok() const { return ok_; }

  uint64_t key() const { return key_; }
  /// The value of a varint or fixed field.
  uint64_t number() const { return number_; }
  /// The value of a fixed 64-bit field as a double.
  double real() const { return std::bit_cast<double>(number_); }
  /// The value of a length-delimited field: a string, bytes or a nested message.
  std::string_view bytes() const { return bytes_; }

 private:
  bool fail();

  std::string_view rest_;
  uint64_t key_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
  bool ok_ = true;
};

/// Takes a varint off the front of `bytes`. False when there is none within 64 bits.
bool take_varint(std::string_view& bytes, uint64_t& value);

/// Bytes that `value` takes as a varint.
constexpr size_t varint_size(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}
/// Writes `value` at `at` and returns the end. Requires: room for varint_size(value) bytes.
inline char* put_varint(char* at, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
  *at++ = static_cast<char>(value);
  return at;
}

/// Appends fields to `out`, in canonical form. Default values are written as told: leaving them out
/// is the caller's business.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::string& out) : out_(out) {}

  void varint(uint32_t field, uint64_t value) {
    append(proto_varint(field));
    append(value);
  }
  void fixed(uint32_t field, uint64_t value) {
    append(proto_key(field, WireType::kFixed64));
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void real(uint32_t field, double value) { fixed(field, std::bit_cast<uint64_t>(value)); }
  void bytes(uint32_t field, std::string_view value) {
    append(proto_bytes(field));
    append(value.size());
    out_.append(value);
  }
  /// A nested message: `write` appends its fields to this writer.
  template <class Write>
  void message(uint32_t field, Write&& write) {
    append(proto_bytes(field));
    const size_t length_at = out_.size();
    out_.push_back(0);
    write();
    const size_t size = out_.size() - length_at - 1;
    if (size >= 0x80) out_.insert(length_at, varint_size(size) - 1, 0);
    put_varint(out_.data() + length_at, size);
  }

 private:
  void append(uint64_t value) {
    char space[10];
    out_.append(space, static_cast<size_t>(put_varint(space, value) - space));
  }

  std::string& out_;
};

static_assert(std::endian::native == std::endian::little, "fixed fields are stored as they are");

}  // namespace llmd::codec
