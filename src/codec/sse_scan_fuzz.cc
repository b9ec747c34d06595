#include "codec/sse_scan.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

using namespace llmd::codec;

namespace {

struct Sink final : SseSink {
  std::vector<std::string> lines;
  void data(std::string_view text) override { lines.emplace_back(text); }
  void data_part(std::string_view text, bool first, bool last) override {
    if (first) lines.emplace_back();
    lines.back() += text;
    if (last && lines.back().ends_with('\r')) lines.back().pop_back();
  }
};

std::vector<std::string> reference(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

/// The first byte sets the piece size. Whatever the pieces, the lines are those of the naive
/// reading.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Sink sink;
  std::array<char, 32> buffer;
  SseScanner scanner(sink, buffer);
  for (size_t at = 0; at < text.size(); at += step) scanner.feed(text.substr(at, step));
  scanner.finish();
  if (sink.lines != reference(text)) std::abort();
  return 0;
}
