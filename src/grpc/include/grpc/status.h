#pragma once

#include <cstdint>
#include <string_view>

namespace llmd::grpc {

/// How a call ended, by the numbers that go over the wire.
enum class StatusCode : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// The code's name as metrics spell it: "OK", "Canceled", "DeadlineExceeded".
std::string_view status_name(StatusCode code);

}  // namespace llmd::grpc
