#include "message_reader.h"

#include <algorithm>

namespace llmd::grpc {

namespace {

size_t length_of(const char* prefix) {
  const auto byte = [&](int i) { return size_t{static_cast<uint8_t>(prefix[i])}; };
  return byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
}

}  // namespace

MessageReader::Result MessageReader::read(std::string_view& input, std::string_view& message) {
  if (delivered_) {
    gathered_.release();
    share_.force(0);
    delivered_ = false;
  }
  const auto check = [&](const char* prefix) {
    if (length_of(prefix) > max_) return Result::kTooLarge;
    return prefix[0] != 0 ? Result::kCompressed : Result::kMessage;
  };
  if (gathered_.size() == 0 && input.size() >= kPrefixBytes) {
    if (const auto bad = check(input.data()); bad != Result::kMessage) return bad;
    const size_t length = length_of(input.data());
    if (input.size() - kPrefixBytes >= length) {
      message = input.substr(kPrefixBytes, length);
      input.remove_prefix(kPrefixBytes + length);
      return Result::kMessage;
    }
  }
  while (!input.empty()) {
    const size_t have = gathered_.size();
    const size_t want =
        have < kPrefixBytes ? kPrefixBytes : kPrefixBytes + length_of(gathered_.data());
    const size_t n = std::min(want - have, input.size());
    if (!gathered_) gathered_ = buffers_.take(n);
    gathered_.append(input.substr(0, n));
    input.remove_prefix(n);
    if (!share_.resize(gathered_.capacity())) return Result::kNoMemory;
    if (gathered_.size() < kPrefixBytes) return Result::kMore;
    if (have < kPrefixBytes)
      if (const auto bad = check(gathered_.data()); bad != Result::kMessage) return bad;
    if (gathered_.size() == kPrefixBytes + length_of(gathered_.data())) {
      message = gathered_.view().substr(kPrefixBytes);
      delivered_ = true;
      return Result::kMessage;
    }
  }
  return Result::kMore;
}

}  // namespace llmd::grpc
