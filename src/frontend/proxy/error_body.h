#pragma once

#include <string>
#include <string_view>

namespace llmd::frontend {

/// An answer of our own, in the form that the clients of an API expect.
struct ErrorBody {
  std::string_view path;  // of the request, with or without its query
  int status = 500;
  std::string_view message;
  std::string_view type;        // OpenAI's "type"; Anthropic's follows from the status
  std::string_view request_id;  // may be empty
};
/// Replaces `out` with the JSON.
void write_error_body(std::string& out, const ErrorBody& error);

}  // namespace llmd::frontend
