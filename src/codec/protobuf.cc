#include "codec/protobuf.h"

namespace llmd::codec {

bool take_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (i == 9 && byte > 1) return false;  // beyond 64 bits
    value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool ProtoReader::fail() {
  ok_ = false;
  rest_ = {};
  return false;
}

bool ProtoReader::next() {
  if (rest_.empty()) return false;
  if (!take_varint(rest_, key_) || key_ >> 3 == 0 || key_ > UINT32_MAX) return fail();
  switch (static_cast<WireType>(key_ & 7)) {
    case WireType::kVarint:
      return take_varint(rest_, number_) || fail();
    case WireType::kFixed64:
    case WireType::kFixed32: {
      const size_t size = (key_ & 7) == static_cast<uint64_t>(WireType::kFixed64) ? 8 : 4;
      if (rest_.size() < size) return fail();
      number_ = 0;
      std::memcpy(&number_, rest_.data(), size);
      rest_.remove_prefix(size);
      return true;
    }
    case WireType::kBytes: {
      uint64_t size;
      if (!take_varint(rest_, size) || size > rest_.size()) return fail();
      bytes_ = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return true;
    }
  }
  return fail();
}

}  // namespace llmd::codec
