#include "trace/span_context.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::trace {
namespace {

constexpr std::string_view kExample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(SpanContext, ReadsTheRecommendationsExample) {
  const auto context = parse_traceparent(kExample);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_high, 0x4bf92f3577b34da6u);
  EXPECT_EQ(context->trace_low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(context->span, 0x00f067aa0ba902b7u);
  EXPECT_TRUE(context->sampled);
}

TEST(SpanContext, WritesWhatItReads) {
  const auto text = format_traceparent(*parse_traceparent(kExample));
  EXPECT_EQ(std::string_view(text.data(), text.size()), kExample);
}

TEST(SpanContext, RefusesWhatTheRecommendationRefuses) {
  const std::string_view bad[] = {
      "",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
      "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
      "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
      "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bg-01",
  };
  for (const auto value : bad) EXPECT_FALSE(parse_traceparent(value)) << value;
}

TEST(SpanContext, ReadsLaterVersionsAsFarAsItKnowsThem) {
  const auto context =
      parse_traceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-what-may-come");
  ASSERT_TRUE(context);
  EXPECT_FALSE(context->sampled);
}

}  // namespace
}  // namespace llmd::trace
