#include "bench/report_picture.h"

#include "bench/svg.h"

#include <gtest/gtest.h>

namespace llmd::bench {
namespace {

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++n;
  return n;
}

Experiment sample() {
  Experiment e{.time_scale = 4};
  for (int i = 0; i < 30; ++i) {
    const bool back = i % 7 < 4;
    e.random.push_back({.returned = back,
                        .ttft_ms = back ? 122 + i * 0.9 : 1900 + i * 4.0,
                        .engine = {.cache_hits = back ? 5190.0 : 0.0,
                                   .cache_queries = 5211,
                                   .prefill_tokens = back ? 21.0 : 5211.0}});
    e.prefix.push_back(
        {.returned = true,
         .ttft_ms = 118 + i * 1.1,
         .engine = {.cache_hits = 5190, .cache_queries = 5211, .prefill_tokens = 21}});
  }
  return e;
}

TEST(ReportPicture, ShowsEveryRequestOnce) {
  const std::string picture = report_picture(sample(), "caption & <text>");
  EXPECT_EQ(count(picture, "<circle"), 60u);
  EXPECT_NE(picture.find("caption &amp; &lt;text&gt;"), std::string::npos);
  EXPECT_NE(picture.find(">30/30<"), std::string::npos);
}

TEST(ReportPicture, SurvivesAnEmptyExperiment) {
  const std::string picture = report_picture({}, "");
  EXPECT_EQ(count(picture, "<circle"), 0u);
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
}

TEST(Svg, EscapesText) {
  Svg svg(10, 10, "white");
  svg.text(1, 2, "a<b & \"c\"", {});
  EXPECT_NE(svg.str().find(">a&lt;b &amp; &quot;c&quot;</text>"), std::string::npos);
}

}  // namespace
}  // namespace llmd::bench
