#include "base/result.h"

#include <fmt/format.h>

namespace llmd {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kBadRequest:
      return "BadRequest";
    case Code::kUnauthorized:
      return "Unauthorized";
    case Code::kForbidden:
      return "Forbidden";
    case Code::kNotFound:
      return "NotFound";
    case Code::kPreconditionFailed:
      return "PreconditionFailed";
    case Code::kResourceExhausted:
      return "ResourceExhausted";
    case Code::kInternal:
      return "Internal";
    case Code::kServiceUnavailable:
      return "ServiceUnavailable";
    case Code::kUnknown:
      return "Unknown";
    case Code::kModelServerError:
      return "ModelServerError";
  }
  return "Unknown";
}

int http_status(Code code) {
  switch (code) {
    case Code::kBadRequest:
      return 400;
    case Code::kUnauthorized:
      return 401;
    case Code::kForbidden:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kPreconditionFailed:
      return 412;
    case Code::kResourceExhausted:
      return 429;
    case Code::kServiceUnavailable:
      return 503;
    case Code::kInternal:
    case Code::kUnknown:
    case Code::kModelServerError:
      return 500;
  }
  return 500;
}

Error Error::in(std::string_view context) && {
  message = fmt::format("{}: {}", context, message);
  return std::move(*this);
}

}  // namespace llmd
