#include "message_reader.h"

#include "gzip.h"

#include "codec/grpc_frame.h"

#include <algorithm>

namespace llmd::grpc {

using codec::kGrpcPrefixBytes;

/// Puts what `message` is compressed from in its place.
MessageReader::Result MessageReader::inflate(std::string_view& message) {
  switch (inflate_gzip(message, max_, buffers_, inflated_share_, inflated_)) {
    case Inflated::kWhole:
      message = inflated_.view();
      return Result::kMessage;
    case Inflated::kTooLarge:
      return Result::kTooLarge;
    case Inflated::kMalformed:
      return Result::kMalformed;
    case Inflated::kNoMemory:
      break;
  }
  return Result::kNoMemory;
}

MessageReader::Result MessageReader::read(std::string_view& input, std::string_view& message) {
  if (delivered_) {
    gathered_.release();
    share_.force(0);
    delivered_ = false;
  }
  if (inflated_) {
    inflated_.release();
    inflated_share_.force(0);
  }
  const auto check = [&](std::string_view prefix) {
    if (codec::grpc_message_size(prefix) > max_) return Result::kTooLarge;
    const bool good = prefix[0] == 0 || (prefix[0] == 1 && gzip_);
    return good ? Result::kMessage : Result::kCompressed;
  };
  if (gathered_.size() == 0 && input.size() >= kGrpcPrefixBytes) {
    if (const auto bad = check(input); bad != Result::kMessage) return bad;
    const size_t length = codec::grpc_message_size(input);
    if (input.size() - kGrpcPrefixBytes >= length) {
      const bool compressed = input[0] != 0;
      message = input.substr(kGrpcPrefixBytes, length);
      input.remove_prefix(kGrpcPrefixBytes + length);
      return compressed ? inflate(message) : Result::kMessage;
    }
  }
  while (!input.empty()) {
    const size_t have = gathered_.size();
    const size_t want = have < kGrpcPrefixBytes
                            ? kGrpcPrefixBytes
                            : kGrpcPrefixBytes + codec::grpc_message_size(gathered_.view());
    const size_t n = std::min(want - have, input.size());
    if (!gathered_) gathered_ = buffers_.take(n);
    gathered_.append(input.substr(0, n));
    input.remove_prefix(n);
    if (!share_.resize(gathered_.capacity())) return Result::kNoMemory;
    if (gathered_.size() < kGrpcPrefixBytes) return Result::kMore;
    if (have < kGrpcPrefixBytes)
      if (const auto bad = check(gathered_.view()); bad != Result::kMessage) return bad;
    if (gathered_.size() == kGrpcPrefixBytes + codec::grpc_message_size(gathered_.view())) {
      message = gathered_.view().substr(kGrpcPrefixBytes);
      delivered_ = true;
      return gathered_.data()[0] != 0 ? inflate(message) : Result::kMessage;
    }
  }
  return Result::kMore;
}

}  // namespace llmd::grpc
