#include "http/grpc_status.h"

namespace llmd::http {

int grpc_status(int http_status) {
  switch (http_status) {
    case 400:
    case 417:
      return 3;  // INVALID_ARGUMENT
    case 401:
      return 16;  // UNAUTHENTICATED
    case 403:
      return 7;  // PERMISSION_DENIED
    case 404:
      return 5;  // NOT_FOUND
    case 408:
    case 504:
      return 4;  // DEADLINE_EXCEEDED
    case 409:
      return 10;  // ABORTED
    case 412:
      return 9;  // FAILED_PRECONDITION
    case 413:
    case 429:
    case 431:
      return 8;  // RESOURCE_EXHAUSTED
    case 500:
      return 13;  // INTERNAL
    case 501:
      return 12;  // UNIMPLEMENTED
    case 502:
    case 503:
      return 14;  // UNAVAILABLE
    default:
      return 2;  // UNKNOWN
  }
}

}  // namespace llmd::http
