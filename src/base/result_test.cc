#include "base/result.h"

#include <gtest/gtest.h>

namespace llmd {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Code::kBadRequest, "odd number");
  return n / 2;
}

Result<int> quarter(int n) {
  LLMD_TRY_ASSIGN(const int first, half(n));
  LLMD_TRY_ASSIGN(const int second, half(first));
  return second;
}

Status divisible_by_four(int n) {
  LLMD_TRY(quarter(n));
  return {};
}

TEST(Result, TryAssignPassesValuesOn) {
  EXPECT_EQ(quarter(12).value(), 3);
}

TEST(Result, TryAssignReturnsTheFirstError) {
  const auto result = quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kBadRequest);
  EXPECT_EQ(result.error().message, "odd number");
}

TEST(Result, TryReturnsTheError) {
  EXPECT_TRUE(divisible_by_four(8));
  EXPECT_FALSE(divisible_by_four(2));
}

TEST(Error, InPutsContextInFront) {
  EXPECT_EQ(Error({Code::kInternal, "no route"}).in("pod a").message, "pod a: no route");
}

TEST(Error, KeepsCodeAndDropReasonInContext) {
  const Error error = Error({Code::kResourceExhausted, "full", "queue_full"}).in("flow");
  EXPECT_EQ(error.code, Code::kResourceExhausted);
  EXPECT_EQ(error.drop_reason, "queue_full");
}

TEST(Code, HasNameAndStatus) {
  const struct {
    Code code;
    std::string_view name;
    int status;
  } kCases[] = {
      {Code::kBadRequest, "BadRequest", 400},
      {Code::kUnauthorized, "Unauthorized", 401},
      {Code::kForbidden, "Forbidden", 403},
      {Code::kNotFound, "NotFound", 404},
      {Code::kPreconditionFailed, "PreconditionFailed", 412},
      {Code::kResourceExhausted, "ResourceExhausted", 429},
      {Code::kInternal, "Internal", 500},
      {Code::kServiceUnavailable, "ServiceUnavailable", 503},
      {Code::kUnknown, "Unknown", 500},
      {Code::kModelServerError, "ModelServerError", 500},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(code_name(c.code), c.name);
    EXPECT_EQ(http_status(c.code), c.status) << c.name;
  }
}

}  // namespace
}  // namespace llmd
