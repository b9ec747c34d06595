#include "codec/sse_scan.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace llmd::codec {
namespace {

class Lines final : public SseSink {
 public:
  std::vector<std::string> lines;
  size_t parts = 0;

  void data(std::string_view text) override { lines.emplace_back(text); }
  void data_part(std::string_view text, bool first, bool) override {
    if (first) lines.emplace_back();
    lines.back() += text;
    ++parts;
  }
};

template <size_t N = 64>
std::vector<std::string> scan(std::string_view text, size_t step) {
  Lines sink;
  std::array<char, N> buffer;
  SseScanner scanner(sink, buffer);
  for (size_t at = 0; at < text.size(); at += step) scanner.feed(text.substr(at, step));
  scanner.finish();
  return sink.lines;
}

using Strings = std::vector<std::string>;

TEST(SseScanner, FindsDataLines) {
  constexpr std::string_view kText =
      ": comment\nevent: x\ndata: {\"a\":1}\n\ndata:b\r\n\r\ndatax: c\ndata:  d\nid: 4\n\ndata: "
      "[DONE]\n\n";
  const Strings expected = {"{\"a\":1}", "b", " d", "[DONE]"};
  for (size_t step = 1; step <= kText.size(); ++step)
    EXPECT_EQ(scan(kText, step), expected) << step;
}

TEST(SseScanner, LastLineNeedsNoLineEnd) {
  EXPECT_EQ(scan("data: a\ndata: b", 3), (Strings{"a", "b"}));
  EXPECT_EQ(scan("data: a\ndata: b", 100), (Strings{"a", "b"}));
}

TEST(SseScanner, LongLinesComeInParts) {
  const std::string line(1000, 'x');
  const std::string text = "data: a\ndata: " + line + "\nother: " + line + "\ndata: b\n";
  for (size_t step = 1; step <= text.size(); ++step)
    EXPECT_EQ(scan<16>(text, step), (Strings{"a", line, "b"})) << step;
}

TEST(SseScanner, CopiesOnlySplitLines) {
  Lines sink;
  SseScanner scanner(sink, {});  // no buffer: nothing can be held
  scanner.feed("data: a\ndata: b\n\n");
  EXPECT_EQ(sink.lines, (Strings{"a", "b"}));
}

}  // namespace
}  // namespace llmd::codec
