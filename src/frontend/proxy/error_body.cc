#include "error_body.h"

#include "base/text.h"

namespace llmd::frontend {
namespace {

bool is_anthropic(std::string_view path) {
  path = path.substr(0, path.find('?'));
  if (path.ends_with('/')) path.remove_suffix(1);
  return path.ends_with("/messages") || path.ends_with("/messages/count_tokens");
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 400:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

void write_error_body(std::string& out, const ErrorBody& error) {
  const bool anthropic = is_anthropic(error.path);
  const bool key_refused = error.status == 401;
  out = anthropic ? R"({"type":"error","error":{"message":")" : R"({"error":{"message":")";
  append_json_escaped(out, error.message);
  out += R"(","type":")";
  out += anthropic     ? anthropic_type(error.status)
         : key_refused ? "invalid_request_error"
                       : error.type;
  if (!anthropic) {
    out += R"(","param":null,"code":)";
    out += key_refused ? R"("invalid_api_key")" : std::to_string(error.status);
    out += "}}";
    return;
  }
  out += R"("},"request_id":")";
  append_json_escaped(out, error.request_id);
  out += R"("})";
}

}  // namespace llmd::frontend
