#include "page_reader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace llmd::fleet {
namespace {

const EngineMetrics& engine(std::string_view name) {
  for (const auto& e : builtin_engines())
    if (e.name == name) return e;
  throw std::invalid_argument("no such engine");
}

EndpointMetrics read(std::string_view name, std::string_view page, EndpointMetrics before = {}) {
  PageReader reader(engine(name));
  EngineDetails details;
  reader.begin();
  reader.feed(page);
  EXPECT_TRUE(reader.finish(before, details));
  return before;
}

EngineDetails read_details(const EngineMetrics& engine, std::string_view page,
                           EngineDetails before = {}) {
  PageReader reader(engine);
  EndpointMetrics metrics;
  reader.begin();
  reader.feed(page);
  EXPECT_TRUE(reader.finish(metrics, before));
  return before;
}

std::string page_of(const char* name) {
  std::ifstream file(std::string(LLMD_SOURCE_DIR "/tests/data/vllm/") + name);
  EXPECT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(PageReader, TakesTheFirstOfSeveralEngines) {
  const auto m = read("vllm",
                      "# TYPE vllm:num_requests_waiting gauge\n"
                      "vllm:num_requests_waiting{engine=\"0\"} 3\n"
                      "vllm:num_requests_waiting{engine=\"1\"} 9\n"
                      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n"
                      "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n");
  EXPECT_EQ(m.waiting_queue_size, 3);
  EXPECT_DOUBLE_EQ(m.kv_cache_usage, .25);
  EXPECT_EQ(m.cache_block_size, 16);
  EXPECT_EQ(m.cache_num_blocks, 1000);
  EXPECT_EQ(m.kv_cache_max_tokens, 16000);
}

TEST(PageReader, TakesNoCacheLargerThanThereAre) {
  const std::string most = std::to_string(INT64_MAX);
  const auto m = read("vllm", "vllm:cache_config_info{block_size=\"" + most +
                                  "\",num_gpu_blocks=\"" + most + "\"} 1\n");
  EXPECT_EQ(m.cache_block_size, 0);
  EXPECT_EQ(m.cache_num_blocks, 0);
  EXPECT_EQ(m.kv_cache_max_tokens, 0);
}

TEST(PageReader, PrefersTheNewestTimestamp) {
  EXPECT_EQ(read("vllm",
                 "vllm:num_requests_waiting 1 100\nvllm:num_requests_waiting 2 "
                 "300\nvllm:num_requests_waiting 3 200\n")
                .waiting_queue_size,
            2);
}

TEST(PageReader, KeepsWhatThePageLacks) {
  EXPECT_EQ(read("vllm", "vllm:num_requests_waiting 1\n", {.running_requests_size = 7})
                .running_requests_size,
            7);
}

TEST(PageReader, ForgetsThePageBefore) {
  PageReader reader(engine("vllm"));
  EndpointMetrics m;
  EngineDetails details;
  reader.begin();
  reader.feed("vllm:num_requests_waiting 5\nvllm:num_requests_run");
  ASSERT_TRUE(reader.finish(m, details));
  reader.begin();
  reader.feed("vllm:num_requests_running 2\n");
  ASSERT_TRUE(reader.finish(m, details));
  EXPECT_EQ(m.waiting_queue_size, 5);
  EXPECT_EQ(m.running_requests_size, 2);
}

TEST(PageReader, SaysWhenNothingIsThere) {
  PageReader reader(engine("vllm"));
  EndpointMetrics m;
  EngineDetails details;
  reader.begin();
  reader.feed("go_goroutines 5\n");
  EXPECT_FALSE(reader.finish(m, details));
}

TEST(PageReader, GuardsAgainstAbsurdNumbers) {
  const auto m = read(
      "vllm",
      "vllm:num_requests_waiting NaN\nvllm:num_requests_running -4\nvllm:kv_cache_usage_perc +Inf\n"
      "vllm:cache_config_info{block_size=\"-16\",num_gpu_blocks=\"many\"} 1\n");
  EXPECT_EQ(m.waiting_queue_size, 0);
  EXPECT_EQ(m.running_requests_size, 0);
  EXPECT_EQ(m.kv_cache_usage, 0);
  EXPECT_EQ(m.cache_block_size, 0);
  EXPECT_EQ(m.cache_num_blocks, 0);
}

TEST(PageReader, SelectsByLabelsWithinAFamily) {
  const auto m = read("triton-tensorrt-llm",
                      "nv_trt_llm_request_metrics{request_type=\"waiting\"} 4\n"
                      "nv_trt_llm_request_metrics{request_type=\"scheduled\"} 6\n"
                      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5\n"
                      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\"} 64\n"
                      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 100\n");
  EXPECT_EQ(m.waiting_queue_size, 4);
  EXPECT_EQ(m.running_requests_size, 6);
  EXPECT_EQ(m.kv_cache_max_tokens, 6400);
}

TEST(PageReader, ReadsTheNewestLoraSeries) {
  EXPECT_EQ(read("vllm",
                 "vllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"a\"} 1.7e+09\n"
                 "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a,b\"} 1.8e+09\n"
                 "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"\"} 1.75e+09\n")
                .max_active_models,
            4);
}

TEST(PageReader, KeepsTheAdaptersOfAPageWithoutThem) {
  EXPECT_EQ(
      read("vllm", "vllm:num_requests_waiting 1\n", {.max_active_models = 4}).max_active_models, 4);
  const EngineDetails before{.running_adapters = {"a"}, .waiting_adapters = {}, .custom = {}};
  EXPECT_EQ(read_details(engine("vllm"), "vllm:num_requests_waiting 1\n", before), before);
}

TEST(PageReader, ListsAdapters) {
  const auto details =
      read_details(engine("vllm"),
                   "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"z\","
                   "waiting_lora_adapters=\"z\"} 1.6e9\n"
                   "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a, b,,\","
                   "waiting_lora_adapters=\"\"} 1.7e9\n",
                   {.running_adapters = {"old"}, .waiting_adapters = {"old"}, .custom = {}});
  EXPECT_EQ(details.running_adapters, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(details.waiting_adapters.empty());
}

TEST(PageReader, ListsAdaptersOfARealPage) {
  const auto details = read_details(engine("vllm"), page_of("metrics-lora-during-load.txt"));
  EXPECT_EQ(details.running_adapters, std::vector<std::string>{"my-lora"});
  EXPECT_EQ(details.waiting_adapters, std::vector<std::string>{"my-lora"});
}

TEST(PageReader, ReadsCustomNumbers) {
  using Custom = std::vector<std::pair<std::string, double>>;
  EngineMetrics with = engine("vllm");
  with.custom = {{"gpu", {"gpu_util", {{"id", "1"}}}}, {"power", {"watts", {}}}};
  auto details = read_details(with, "gpu_util{id=\"0\"} 1\ngpu_util{id=\"1\"} 0.5\n");
  EXPECT_EQ(details.custom, (Custom{{"gpu", 0.5}}));
  details = read_details(with, "watts 300\n", details);
  EXPECT_EQ(details.custom, (Custom{{"gpu", 0.5}, {"power", 300}}));
}

TEST(PageReader, ReadsARealPageWhateverItsChunks) {
  const std::string page = page_of("metrics-after-load.txt");
  const auto whole = read("vllm", page);
  EXPECT_EQ(whole.cache_block_size, 32);
  EXPECT_GT(whole.cache_num_blocks, 0);
  PageReader reader(engine("vllm"));
  for (const size_t step : {1, 7, 1000, 4096}) {
    EndpointMetrics m;
    EngineDetails details;
    reader.begin();
    for (size_t at = 0; at < page.size(); at += step)
      reader.feed(std::string_view(page).substr(at, step));
    ASSERT_TRUE(reader.finish(m, details));
    EXPECT_EQ(m.cache_num_blocks, whole.cache_num_blocks);
    EXPECT_EQ(m.waiting_queue_size, whole.waiting_queue_size);
    EXPECT_EQ(m.kv_cache_usage, whole.kv_cache_usage);
  }
}

/// The attributes of endpoint "pod-1" after pages one after the other.
std::vector<std::pair<std::string, double>> attributes_after(
    const std::vector<AttributeSeries>& wanted, const std::vector<std::string_view>& pages) {
  PageReader reader(wanted, "pod-1");
  EndpointMetrics metrics{.waiting_queue_size = 7, .kv_cache_max_tokens = 5};
  EngineDetails details{.custom = {{"other", 1}}, .attributes = {{"b/", 9}}};
  for (const auto page : pages) {
    reader.begin();
    reader.feed(page);
    EXPECT_TRUE(reader.finish(metrics, details)) << page;
  }
  EXPECT_EQ(metrics.waiting_queue_size, 7);
  EXPECT_EQ(metrics.kv_cache_max_tokens, 5);
  EXPECT_EQ(details.custom.size(), 1u);
  return details.attributes;
}

using Attributes = std::vector<std::pair<std::string, double>>;

TEST(PageReader, ReadsAttributesAndLeavesTheRest) {
  const std::vector<AttributeSeries> gpu = {{.key = "gpu/dcgm",
                                             .series = {"util", {}},
                                             .largest = true,
                                             .own_label = "pod",
                                             .factor = 0.01}};
  EXPECT_EQ(attributes_after(gpu, {"util 30\nutil 80\n"}),
            (Attributes{{"b/", 9}, {"gpu/dcgm", .8}}));
  EXPECT_EQ(attributes_after(
                gpu, {"util{pod=\"pod-1\"} 30\nutil{pod=\"pod-2\"} 80\nutil{gpu=\"3\"} 20\n"})[1]
                .second,
            .3);
  EXPECT_EQ(attributes_after(gpu, {"util NaN\nutil 50\n"})[1].second, .5);
  EXPECT_EQ(attributes_after(gpu, {"util 90\n", "util 10\n"})[1].second, .1);
  EXPECT_EQ(
      attributes_after({{.key = "a/", .series = {"x", {}}}, {.key = "b/", .series = {"y", {}}}},
                       {"y 3\n", "x 1\nx 2\n"}),
      (Attributes{{"b/", 3}, {"a/", 1}}));
}

TEST(PageReader, SaysWhenNoAttributeIsThere) {
  const AttributeSeries gpu{.key = "gpu/", .series = {"util", {}}, .own_label = "pod"};
  PageReader reader({&gpu, 1}, "pod-1");
  EndpointMetrics metrics;
  EngineDetails details;
  for (const auto* page : {"go_goroutines 5\n", "util{pod=\"pod-2\"} 80\n"}) {
    reader.begin();
    reader.feed(page);
    EXPECT_FALSE(reader.finish(metrics, details)) << page;
  }
}

}  // namespace
}  // namespace llmd::fleet
