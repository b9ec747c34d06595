#include "sim/metrics_page.h"

#include <gtest/gtest.h>

#include <numeric>

namespace llmd::sim {
namespace {

using namespace std::chrono_literals;

struct Sink : SequenceOwner {
  void on_progress(Sequence&) override {}
};

EngineConfig config() {
  EngineConfig c;
  c.model = "m";
  c.prefix_cache = true;
  c.latency.prefill_overhead = 500ms;
  return c;
}

void expect_line(std::string_view page, const std::string& line) {
  EXPECT_NE(page.find("\n" + line + "\n"), page.npos) << line;
}

TEST(MetricsPage, CountsARequestUnderTheEnginesNames) {
  Engine engine(config());
  MetricsPage page(engine, "m");
  Sink sink;
  std::vector<uint32_t> prompt(40);
  std::iota(prompt.begin(), prompt.end(), 0);
  for (int i = 0; i < 2; ++i) {
    Sequence s;
    s.owner = &sink;
    s.prompt = prompt;
    s.output_tokens = 2;
    s.max_tokens = 7;
    engine.submit(s, TimePoint(i * 10s));
    expect_line(page.render(1), "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1");
    engine.advance(TimePoint(i * 10s + 5s));
  }
  const std::string_view text = page.render(1);
  const std::string l = "{engine=\"0\",model_name=\"m\"} ";
  expect_line(text, "vllm:num_requests_running" + l + "0");
  expect_line(text, "vllm:prompt_tokens_total" + l + "80");
  expect_line(text, "vllm:generation_tokens_total" + l + "4");
  expect_line(text, "vllm:prefix_cache_queries_total" + l + "80");
  expect_line(text, "vllm:prefix_cache_hits_total" + l + "32");
  expect_line(text, "vllm:request_prefill_kv_computed_tokens_sum" + l + "48");
  expect_line(text, "vllm:request_prefill_kv_computed_tokens_count" + l + "2");
  expect_line(text, "vllm:time_to_first_token_seconds_sum" + l + "1");
  expect_line(
      text, "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 2");
  expect_line(text,
              "vllm:prompt_tokens_by_source_total{engine=\"0\",model_name=\"m\",source=\"local_"
              "compute\"} 48");
}

TEST(MetricsPage, BucketsAreCumulative) {
  Engine engine(config());
  MetricsPage page(engine, "m");
  Sink sink;
  Sequence s;
  s.owner = &sink;
  s.output_tokens = 1;
  engine.submit(s, TimePoint());
  engine.advance(TimePoint(1s));
  const std::string_view text = page.render(1);
  const std::string name = "vllm:time_to_first_token_seconds_bucket{engine=\"0\",";
  expect_line(text, name + "le=\"0.25\",model_name=\"m\"} 0");
  expect_line(text, name + "le=\"0.5\",model_name=\"m\"} 1");
  expect_line(text, name + "le=\"1.0\",model_name=\"m\"} 1");
  expect_line(text, name + "le=\"+Inf\",model_name=\"m\"} 1");
}

TEST(MetricsPage, ListsAdaptersInUse) {
  EngineConfig c = config();
  c.max_loras = 2;
  Engine engine(c);
  MetricsPage page(engine, "m");
  EXPECT_EQ(page.render(9).find("lora_requests_info"), std::string_view::npos);
  engine.load_adapter("x", "");
  engine.load_adapter("y\"", "");
  Sink sink;
  Sequence s[2];
  for (int i = 0; i < 2; ++i) {
    s[i].owner = &sink;
    s[i].output_tokens = 1;
    s[i].adapter = i;
    engine.submit(s[i], TimePoint());
  }
  expect_line(page.render(9),
              "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"x,y\\\"\","
              "waiting_lora_adapters=\"\"} 9");
}

TEST(MetricsPage, DescribesTheCache) {
  Engine engine(config());
  MetricsPage page(engine, "a\"b", 3);
  const std::string_view text = page.render(1);
  EXPECT_NE(text.find("vllm:cache_config_info{engine=\"3\",block_size=\"16\""), text.npos);
  EXPECT_NE(text.find("num_gpu_blocks=\"1024\",model_name=\"a\\\"b\"} 1\n"), text.npos);
}

}  // namespace
}  // namespace llmd::sim
