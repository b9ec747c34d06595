#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmd::codec {

/// In front of each gRPC message: whether it is compressed (0 or 1), then its size in four bytes.
inline constexpr size_t kGrpcPrefixBytes = 5;

/// The size of the message behind `prefix`. Requires: kGrpcPrefixBytes bytes.
constexpr uint64_t grpc_message_size(std::string_view prefix) {
  uint64_t size = 0;
  for (size_t i = 1; i < kGrpcPrefixBytes; ++i) size = size << 8 | static_cast<uint8_t>(prefix[i]);
  return size;
}
/// That of a message which is not compressed.
constexpr std::array<char, kGrpcPrefixBytes> grpc_prefix(size_t size) {
  return {0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
          static_cast<char>(size >> 8), static_cast<char>(size)};
}

}  // namespace llmd::codec
