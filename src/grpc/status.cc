#include "grpc/status.h"

#include <array>

namespace llmd::grpc {

std::string_view status_name(StatusCode code) {
  constexpr std::array<std::string_view, 17> names = {
      "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
      "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
      "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
      "DataLoss", "Unauthenticated"};
  return names[static_cast<size_t>(code)];
}

}  // namespace llmd::grpc
