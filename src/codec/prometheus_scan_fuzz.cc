#include "codec/prometheus_scan.h"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <string>

using namespace llmd::codec;

namespace {

struct Sink final : PrometheusSink {
  std::string seen;
  void sample(size_t index, const PrometheusSample& s) override {
    seen += std::to_string(index) + '{' + std::string(s.labels) + '}' +
            std::to_string(std::bit_cast<uint64_t>(s.value)) + '@' + std::string(s.timestamp) +
            '\n';
    if (auto label = prometheus_label(s.labels, "x")) seen += *label;
  }
};

}  // namespace

/// The first byte sets the piece size. The samples do not depend on how the page is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static constexpr std::string_view kNames[] = {"a", "b:c", "longer_than_sixteen_bytes"};
  static const PrometheusNames names(kNames);

  Sink whole, pieces;
  PrometheusScanner a(names, whole), b(names, pieces);
  a.feed(text);
  a.finish();
  for (size_t at = 0; at < text.size(); at += step) b.feed(std::string(text.substr(at, step)));
  b.finish();
  if (whole.seen != pieces.seen || a.bad_lines() != b.bad_lines() || a.saw_end() != b.saw_end())
    std::abort();
  return 0;
}
