#include "fleet/metrics_source.h"

#include "base/text.h"

#include <fmt/format.h>

namespace llmd::fleet {

Result<SeriesSpec> parse_series_spec(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(Code::kBadRequest, fmt::format("'{}' is not a metric: {}", text, why));
  };
  SeriesSpec spec;
  const std::string_view whole = trim(text);
  const size_t open = whole.find('{');
  spec.family = trim(whole.substr(0, open));
  if (spec.family.empty()) return bad("the family name is missing");
  if (open == std::string_view::npos) return spec;
  if (!whole.ends_with('}')) return bad("'}' is missing at the end");
  std::string_view rest = whole.substr(open + 1, whole.size() - open - 2);
  while (!trim(rest).empty()) {
    const size_t comma = rest.find(',');
    const std::string_view pair = trim(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return bad("a label needs the form name=value");
    std::string_view value = trim(pair.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    spec.labels.emplace_back(trim(pair.substr(0, equals)), value);
  }
  return spec;
}

const std::vector<EngineMetrics>& builtin_engines() {
  static const std::vector<EngineMetrics> engines = [] {
    const auto series = [](std::string_view text) { return *parse_series_spec(text); };
    return std::vector<EngineMetrics>{
        {.name = "vllm",
         .queued = series("vllm:num_requests_waiting"),
         .running = series("vllm:num_requests_running"),
         .kv_usage = series("vllm:kv_cache_usage_perc"),
         .lora = series("vllm:lora_requests_info"),
         .cache_info = series("vllm:cache_config_info"),
         .block_size_label = "block_size",
         .num_blocks_label = "num_gpu_blocks"},
        {.name = "sglang",
         .queued = series("sglang:num_queue_reqs"),
         .running = series("sglang:num_running_reqs"),
         .kv_usage = series("sglang:token_usage"),
         .cache_info = series("sglang:cache_config_info"),
         .block_size_label = "page_size",
         .num_blocks_label = "num_pages"},
        {.name = "trtllm-serve",
         .queued = series("trtllm_num_requests_waiting"),
         .running = series("trtllm_num_requests_running"),
         .kv_usage = series("trtllm_kv_cache_utilization"),
         .block_size = series("trtllm_kv_cache_tokens_per_block"),
         .num_blocks = series("trtllm_kv_cache_max_blocks")},
        {.name = "triton-tensorrt-llm",
         .queued = series("nv_trt_llm_request_metrics{request_type=waiting}"),
         .running = series("nv_trt_llm_request_metrics{request_type=scheduled}"),
         .kv_usage = series("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
         .block_size = series("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}"),
         .num_blocks = series("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}")},
        {.name = "triton",
         .queued = series("nv_inference_pending_request_count"),
         .running = series("nv_inference_exec_count")},
    };
  }();
  return engines;
}

}  // namespace llmd::fleet
