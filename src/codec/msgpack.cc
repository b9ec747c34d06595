#include "codec/msgpack.h"

#include <array>

namespace llmd::codec {
namespace {

using Kind = MsgpackReader::Kind;

/// What a first byte says: the kind, how many bytes of size or number follow it, and for values
/// whose size is in it that size (of views in bytes, of arrays and maps in values).
struct Tag {
  Kind kind = Kind::kNone;
  uint8_t number_bytes = 0;
  uint8_t size = 0;
  bool sized = false;  // the number that follows is a size
};

constexpr std::array<Tag, 256> make_tags() {
  std::array<Tag, 256> tags{};
  const auto fill = [&](size_t from, size_t to, Kind kind) {
    for (size_t i = from; i <= to; ++i) tags[i].kind = kind;
  };
  fill(0x00, 0x7f, Kind::kInt);
  fill(0xe0, 0xff, Kind::kInt);
  for (size_t i = 0x80; i <= 0x8f; ++i)
    tags[i] = {Kind::kMap, 0, static_cast<uint8_t>(2 * (i & 15)), false};
  for (size_t i = 0x90; i <= 0x9f; ++i)
    tags[i] = {Kind::kArray, 0, static_cast<uint8_t>(i & 15), false};
  for (size_t i = 0xa0; i <= 0xbf; ++i)
    tags[i] = {Kind::kText, 0, static_cast<uint8_t>(i & 31), false};
  tags[0xc0].kind = Kind::kNil;
  fill(0xc2, 0xc3, Kind::kBool);
  for (uint8_t i = 0; i < 3; ++i) {
    const auto bytes = static_cast<uint8_t>(1 << i);
    tags[0xc4 + i] = {Kind::kBytes, bytes, 0, true};
    tags[0xc7 + i] = {Kind::kExtension, bytes, 1, true};  // its type follows its size
    tags[0xd9 + i] = {Kind::kText, bytes, 0, true};
  }
  tags[0xca] = {Kind::kReal, 4, 0, false};
  tags[0xcb] = {Kind::kReal, 8, 0, false};
  for (uint8_t i = 0; i < 4; ++i) {
    tags[0xcc + i] = {Kind::kInt, static_cast<uint8_t>(1 << i), 0, false};
    tags[0xd0 + i] = {Kind::kInt, static_cast<uint8_t>(1 << i), 0, false};
  }
  for (uint8_t i = 0; i < 5; ++i)
    tags[0xd4 + i] = {Kind::kExtension, 0, static_cast<uint8_t>(1 + (1 << i)), false};
  for (uint8_t i = 0; i < 2; ++i) {
    const auto bytes = static_cast<uint8_t>(2 << i);
    tags[0xdc + i] = {Kind::kArray, bytes, 0, true};
    tags[0xde + i] = {Kind::kMap, bytes, 0, true};
  }
  return tags;
}

constexpr std::array<Tag, 256> kTags = make_tags();

/// The big-endian number of `bytes` bytes at `at`.
uint64_t number_at(const char* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(at[i]);
  return value;
}

uint64_t word_at(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return __builtin_bswap64(word);
}

/// How a first byte leads to an unsigned integer of up to four bytes: where its bytes begin and by
/// how much the eight bytes from there are shifted. `step` 0: it leads to none.
struct Width {
  uint8_t step = 0;
  uint8_t offset = 0;
  uint8_t shift = 0;
};

constexpr std::array<Width, 256> make_widths() {
  std::array<Width, 256> widths{};
  for (size_t i = 0; i <= 0x7f; ++i) widths[i] = {1, 0, 56};
  widths[0xcc] = {2, 1, 56};
  widths[0xcd] = {3, 1, 48};
  widths[0xce] = {5, 1, 32};
  return widths;
}

constexpr std::array<Width, 256> kWidths = make_widths();

}  // namespace

Kind MsgpackReader::next_kind() const {
  return ok_ && at_ != end_ ? kTags[tag()].kind : Kind::kNone;
}

bool MsgpackReader::read_number(uint64_t& bits, bool& negative) {
  negative = false;
  if (next_kind() != Kind::kInt) return fail();
  const uint8_t first = tag();
  const size_t bytes = kTags[first].number_bytes;
  if (left() < 1 + bytes) return fail();
  if (bytes == 0) {
    bits = static_cast<uint64_t>(int64_t{static_cast<int8_t>(first)});
    negative = first >= 0xe0;
  } else {
    bits = number_at(at_ + 1, bytes);
    if (first >= 0xd0) {  // with a sign
      const auto unused = static_cast<int>(64 - 8 * bytes);
      const int64_t value = static_cast<int64_t>(bits << unused) >> unused;
      negative = value < 0;
      bits = static_cast<uint64_t>(value);
    }
  }
  at_ += 1 + bytes;
  return true;
}

bool MsgpackReader::read_uint(uint64_t& value) {
  bool negative;
  return read_number(value, negative) && (!negative || fail());
}

bool MsgpackReader::read_bits(uint64_t& value) {
  if (left() >= 9 && tag() == 0xcf && ok_) [[likely]] {
    value = word_at(at_ + 1);
    at_ += 9;
    return true;
  }
  bool negative;
  return read_number(value, negative);
}

bool MsgpackReader::read_real(double& value) {
  if (next_kind() == Kind::kInt) {
    uint64_t bits;
    bool negative;
    if (!read_number(bits, negative)) return false;
    value = negative ? static_cast<double>(static_cast<int64_t>(bits)) : static_cast<double>(bits);
    return true;
  }
  if (next_kind() != Kind::kReal) return fail();
  const size_t bytes = kTags[tag()].number_bytes;
  if (left() < 1 + bytes) return fail();
  const uint64_t bits = number_at(at_ + 1, bytes);
  value = bytes == 8 ? std::bit_cast<double>(bits)
                     : double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
  at_ += 1 + bytes;
  return true;
}

bool MsgpackReader::read_view(std::string_view& value, bool bytes_too) {
  const Kind kind = next_kind();
  if (kind != Kind::kText && !(bytes_too && kind == Kind::kBytes)) return fail();
  const Tag& t = kTags[tag()];
  if (left() < 1u + t.number_bytes) return fail();
  const size_t size = t.sized ? number_at(at_ + 1, t.number_bytes) : t.size;
  const char* const from = at_ + 1 + t.number_bytes;
  if (static_cast<size_t>(end_ - from) < size) return fail();
  value = {from, size};
  at_ = from + size;
  return true;
}

bool MsgpackReader::read_header(uint32_t& count, uint32_t values_each) {
  if (next_kind() != (values_each == 1 ? Kind::kArray : Kind::kMap)) return fail();
  const Tag& t = kTags[tag()];
  if (left() < 1u + t.number_bytes) return fail();
  const uint64_t n = t.sized ? number_at(at_ + 1, t.number_bytes) : t.size / values_each;
  at_ += 1 + t.number_bytes;
  if (n * values_each > left()) return fail();  // a value takes a byte at least
  count = static_cast<uint32_t>(n);
  return true;
}

bool MsgpackReader::read_uint32s(std::span<uint32_t> out) {
  if (!ok_) return false;
  const char* at = at_;
  size_t i = 0;
  while (i < out.size() && end_ - at >= 9) {
    const Width w = kWidths[static_cast<uint8_t>(*at)];
    if (w.step == 0) [[unlikely]]
      break;
    out[i++] = static_cast<uint32_t>(word_at(at + w.offset) >> w.shift);
    at += w.step;
  }
  at_ = at;
  for (; i < out.size(); ++i) {
    uint64_t value;
    if (!read_uint(value)) return false;
    if (value > UINT32_MAX) return fail();
    out[i] = static_cast<uint32_t>(value);
  }
  return true;
}

bool MsgpackReader::skip() {
  if (!ok_) return false;
  // Values that are announced and not read yet, this one first. Each takes a byte at least.
  uint64_t pending = 1;
  const char* at = at_;
  while (pending > 0) {
    if (pending > static_cast<uint64_t>(end_ - at)) return fail();
    const Tag& t = kTags[static_cast<uint8_t>(*at)];
    if (t.kind == Kind::kNone) return fail();
    if (static_cast<size_t>(end_ - at) < 1u + t.number_bytes) return fail();
    const uint64_t number = t.sized ? number_at(at + 1, t.number_bytes) : 0;
    at += 1 + t.number_bytes;
    --pending;
    if (t.kind == Kind::kArray) {
      pending += t.sized ? number : t.size;
    } else if (t.kind == Kind::kMap) {
      pending += t.sized ? 2 * number : t.size;
    } else {
      const uint64_t size = t.size + number;
      if (static_cast<uint64_t>(end_ - at) < size) return fail();
      at += size;
    }
  }
  at_ = at;
  return true;
}

void MsgpackWriter::tagged(uint8_t tag, uint64_t value, size_t bytes) {
  char space[9];
  space[0] = static_cast<char>(tag);
  for (size_t i = 0; i < bytes; ++i)
    space[1 + i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
  out_.append(space, 1 + bytes);
}

void MsgpackWriter::uint(uint64_t value) {
  if (value < 0x80)
    byte(static_cast<uint8_t>(value));
  else if (value <= UINT8_MAX)
    tagged(0xcc, value, 1);
  else if (value <= UINT16_MAX)
    tagged(0xcd, value, 2);
  else if (value <= UINT32_MAX)
    tagged(0xce, value, 4);
  else
    tagged(0xcf, value, 8);
}

void MsgpackWriter::text(std::string_view value) {
  if (value.size() < 32)
    byte(static_cast<uint8_t>(0xa0 | value.size()));
  else if (value.size() <= UINT8_MAX)
    tagged(0xd9, value.size(), 1);
  else if (value.size() <= UINT16_MAX)
    tagged(0xda, value.size(), 2);
  else
    tagged(0xdb, value.size(), 4);
  out_.append(value);
}

void MsgpackWriter::bytes(std::string_view value) {
  if (value.size() <= UINT8_MAX)
    tagged(0xc4, value.size(), 1);
  else if (value.size() <= UINT16_MAX)
    tagged(0xc5, value.size(), 2);
  else
    tagged(0xc6, value.size(), 4);
  out_.append(value);
}

void MsgpackWriter::header(uint32_t count, uint8_t small, uint8_t wide) {
  if (count < 16)
    byte(static_cast<uint8_t>(small | count));
  else if (count <= UINT16_MAX)
    tagged(wide, count, 2);
  else
    tagged(static_cast<uint8_t>(wide + 1), count, 4);
}

}  // namespace llmd::codec
