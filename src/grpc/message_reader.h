#pragma once

#include "io/buffer_pool.h"
#include "io/byte_budget.h"

#include <cstdint>
#include <string_view>

namespace llmd::grpc {

/// Takes gRPC's framing (a flag and a 32-bit length before each message) off one direction of a
/// call, and gzip where the call may use it. A message that arrives in one piece is a view into
/// that piece; only one that is split or compressed is gathered. Memory follows the bytes that have
/// come, not the length that was promised, and what a compressed message grows to is bounded like
/// one that was sent as it is.
/// Threading: one loop.
class MessageReader {
 public:
  enum class Result : uint8_t { kMessage, kMore, kTooLarge, kCompressed, kMalformed, kNoMemory };

  MessageReader(io::BufferPool& buffers, io::ByteBudget& budget, size_t message_bytes_max)
      : buffers_(buffers), share_(budget), inflated_share_(budget), max_(message_bytes_max) {}

  /// Messages may be compressed: the call's grpc-encoding is gzip. Otherwise they are kCompressed.
  void accept_gzip() { gzip_ = true; }

  /// Takes bytes off the front of `input`. kMessage: `message` is complete and valid until the next
  /// call; call again. kMore: all input is taken. Anything else ends the call.
  Result read(std::string_view& input, std::string_view& message);

  /// True between messages.
  bool at_boundary() const { return gathered_.size() == 0; }

 private:
  Result inflate(std::string_view& message);

  io::BufferPool& buffers_;
  io::BudgetShare share_;
  io::BudgetShare inflated_share_;
  const size_t max_;
  bool gzip_ = false;
  io::Buffer inflated_;
  io::Buffer gathered_;     // prefix and message so far
  bool delivered_ = false;  // gathered_ holds a message that was handed out
};

}  // namespace llmd::grpc
