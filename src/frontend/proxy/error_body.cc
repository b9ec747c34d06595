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
  out = anthropic ? R"({"type":"error","error":{"message":")" : R"({"error":{"message":")";
  append_json_escaped(out, error.message);
  out += R"(","type":")";
  out += anthropic ? anthropic_type(error.status) : error.type;
  if (!anthropic) {
    out += R"(","param":null,"code":)";
    out += error.code.empty() ? std::to_string(error.status) : std::string(error.code);
    out += "}}";
    return;
  }
  out += R"("},"request_id":")";
  append_json_escaped(out, error.request_id);
  out += R"("})";
}

}  // namespace llmd::frontend
