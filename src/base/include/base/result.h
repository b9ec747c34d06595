#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace llmd {

/// What went wrong, in the words of the wire contract: each code has one HTTP status.
enum class Code {
  kBadRequest,          // 400
  kUnauthorized,        // 401
  kForbidden,           // 403
  kNotFound,            // 404
  kPreconditionFailed,  // 412
  kResourceExhausted,   // 429
  kInternal,            // 500
  kServiceUnavailable,  // 503
  kUnknown,             // 500; an error without a code of its own
  kModelServerError,    // the model server answered with a status other than 200
};

/// The code's name as metrics and error bodies spell it, for example "ResourceExhausted".
std::string_view code_name(Code code);

/// The HTTP status that answers a client for `code`.
int http_status(Code code);

/// A fault of a peer, of input, or of the environment. `message` is for people and holds no secrets
/// and no prompt text.
struct Error {
  Code code = Code::kUnknown;
  std::string message;
  std::string
      drop_reason;      // value of x-llm-d-request-dropped-reason; empty: the header is not sent
  int retry_after = 0;  // seconds, value of Retry-After; 0: the header is not sent

  /// The same error with "`context`: " in front of its message.
  Error in(std::string_view context) &&;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

/// Shorthand for returning a failure from a function that returns Result.
inline std::unexpected<Error> fail(Code code, std::string message, std::string drop_reason = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(drop_reason)});
}
inline std::unexpected<Error> fail(Error error) {
  return std::unexpected(std::move(error));
}

}  // namespace llmd

/// Returns the error of `expr` (a Result) from the enclosing function when it failed.
#define LLMD_TRY(expr)                                                \
  do {                                                                \
    if (auto llmd_try_result = (expr); !llmd_try_result) [[unlikely]] \
      return std::unexpected(std::move(llmd_try_result).error());     \
  } while (0)

/// Declares `lhs` with the value of `expr` (a Result), or returns its error from the enclosing
/// function.
#define LLMD_TRY_ASSIGN(lhs, expr) LLMD_TRY_ASSIGN_(LLMD_CONCAT_(llmd_try_, __LINE__), lhs, expr)
#define LLMD_TRY_ASSIGN_(tmp, lhs, expr)            \
  auto tmp = (expr);                                \
  if (!tmp) [[unlikely]]                            \
    return std::unexpected(std::move(tmp).error()); \
  lhs = std::move(*tmp)
#define LLMD_CONCAT_(a, b) LLMD_CONCAT2_(a, b)
#define LLMD_CONCAT2_(a, b) a##b
