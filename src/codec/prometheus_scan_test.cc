#include "codec/prometheus_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace llmd::codec {
namespace {

struct Seen {
  size_t index;
  std::string labels;
  double value;
  std::string timestamp;
};

class Collector final : public PrometheusSink {
 public:
  std::vector<Seen> samples;
  void sample(size_t index, const PrometheusSample& s) override {
    samples.push_back({index, std::string(s.labels), s.value, std::string(s.timestamp)});
  }
};

constexpr std::string_view kNames[] = {"a", "vllm:num_requests_running", "b_total"};

std::vector<Seen> scan(std::string_view page, size_t* bad = nullptr) {
  const PrometheusNames names(kNames);
  Collector sink;
  PrometheusScanner scanner(names, sink);
  scanner.feed(page);
  scanner.finish();
  if (bad) *bad = scanner.bad_lines();
  return sink.samples;
}

TEST(PrometheusScanner, ReadsWantedSamples) {
  const auto seen = scan(
      "# HELP a text\n# TYPE a gauge\n"
      "a 1\naa 2\na_b 3\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"x}y\"} 2.5 1700000000000\r\n"
      "other{a=\"1\"} 5\n\n  b_total\t{x=\"y\"}\t1e3\na -4.5");
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0].index, 0u);
  EXPECT_EQ(seen[0].value, 1);
  EXPECT_EQ(seen[1].labels, "engine=\"0\",model_name=\"x}y\"");
  EXPECT_EQ(seen[1].value, 2.5);
  EXPECT_EQ(seen[1].timestamp, "1700000000000");
  EXPECT_EQ(seen[2].value, 1000);
  EXPECT_EQ(seen[3].value, -4.5);
}

TEST(PrometheusScanner, ReadsSpecialValues) {
  const auto seen = scan("a NaN\na +Inf\na -Inf\na Inf\na +1\na 1.5E-3\n");
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_TRUE(std::isnan(seen[0].value));
  EXPECT_EQ(seen[1].value, INFINITY);
  EXPECT_EQ(seen[2].value, -INFINITY);
  EXPECT_EQ(seen[3].value, INFINITY);
  EXPECT_EQ(seen[4].value, 1);
  EXPECT_EQ(seen[5].value, 0.0015);
}

TEST(PrometheusScanner, CountsLinesItCannotRead) {
  size_t bad = 0;
  for (std::string_view line :
       {"a", "a x", "a 1 2 3", "a{x=\"1\" 2", "a ++1", "a 1x", "a{} ", "a 1 soon"}) {
    EXPECT_TRUE(scan(line, &bad).empty()) << line;
    EXPECT_EQ(bad, 1u) << line;
  }
  EXPECT_EQ(scan("a x\na 2\n", &bad).size(), 1u);
}

TEST(PrometheusScanner, ReadsOpenMetrics) {
  const PrometheusNames names(kNames);
  Collector sink;
  PrometheusScanner scanner(names, sink);
  scanner.feed("b_total 17 1.7e9 # {trace_id=\"x\"} 0.5 1.6e9\nb_total 3 # {} 1\n# EOF\na 1\n");
  scanner.finish();
  ASSERT_EQ(sink.samples.size(), 2u);
  EXPECT_EQ(sink.samples[0].timestamp, "1.7e9");
  EXPECT_EQ(sink.samples[1].timestamp, "");
  EXPECT_TRUE(scanner.saw_end());
}

TEST(PrometheusScanner, LeavesOutLinesOverTheLimit) {
  const PrometheusNames names(kNames);
  Collector sink;
  PrometheusScanner scanner(names, sink);
  scanner.feed("a{x=\"");
  for (int i = 0; i < 70; ++i) scanner.feed(std::string(1000, 'x'));
  scanner.feed("\"} 1\na 2\n");
  scanner.finish();
  ASSERT_EQ(sink.samples.size(), 1u);
  EXPECT_EQ(sink.samples[0].value, 2);
  EXPECT_EQ(scanner.bad_lines(), 1u);
}

TEST(PrometheusLabel, ResolvesEscapes) {
  constexpr std::string_view kLabels = R"(a="1", b = "x\"y\\z\n" ,c="}=,",d="",)";
  EXPECT_EQ(prometheus_label(kLabels, "a"), "1");
  EXPECT_EQ(prometheus_label(kLabels, "b"), "x\"y\\z\n");
  EXPECT_EQ(prometheus_label(kLabels, "c"), "}=,");
  EXPECT_EQ(prometheus_label(kLabels, "d"), "");
  EXPECT_EQ(prometheus_label(kLabels, "e"), std::nullopt);
  EXPECT_EQ(prometheus_label("", "a"), std::nullopt);
  EXPECT_EQ(prometheus_label("a=1,b=\"2\"", "b"), std::nullopt);
  EXPECT_EQ(prometheus_label("a=\"1", "a"), std::nullopt);
}

std::string page(const char* name) {
  std::ifstream file(std::string(LLMD_SOURCE_DIR "/tests/data/vllm/") + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PrometheusScanner, ReadsVllmPagesHoweverTheyAreSplit) {
  constexpr std::string_view kWanted[] = {"vllm:num_requests_running", "vllm:num_requests_waiting",
                                          "vllm:kv_cache_usage_perc", "vllm:cache_config_info",
                                          "vllm:lora_requests_info"};
  const PrometheusNames names(kWanted);
  const std::string text = page("metrics-lora-during-load.txt");
  ASSERT_GT(text.size(), 50'000u);
  for (size_t step : {size_t{1}, size_t{7}, size_t{1448}, text.size()}) {
    Collector sink;
    PrometheusScanner scanner(names, sink);
    for (size_t at = 0; at < text.size(); at += step)
      scanner.feed(std::string_view(text).substr(at, step));
    scanner.finish();
    EXPECT_EQ(scanner.bad_lines(), 0u);
    ASSERT_EQ(sink.samples.size(), 7u);
    size_t loras = 0;
    for (const Seen& s : sink.samples) {
      loras += s.index == 4;
      if (s.index != 3) continue;
      EXPECT_EQ(prometheus_label(s.labels, "block_size"), "32");
    }
    EXPECT_EQ(loras, 3u);
  }
}

}  // namespace
}  // namespace llmd::codec
