#include "sim/metrics_page.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

namespace llmd::sim {
namespace {

std::string escaped_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

void append_integer(std::string& out, uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

void append_real(std::string& out, double value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<size_t>(end - digits));
}

/// "1.0", "0.025": whole bounds carry a fraction, as vLLM writes them.
std::string bound_text(double bound) {
  std::string text;
  append_real(text, bound);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

}  // namespace

MetricsPage::MetricsPage(const Engine& engine, std::string_view model_name, uint32_t engine_index,
                         const EventCounters* events)
    : engine_(engine),
      events_(events),
      engine_label_(fmt::format("engine=\"{}\"", engine_index)),
      model_label_(fmt::format("model_name=\"{}\"", escaped_label(model_name))) {
  lay_out();
  if (events_) lay_out_events(*events_);
}

void MetricsPage::family(std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(fixed_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                 type);
}

void MetricsPage::sample(std::string_view name, std::string_view labels, Kind kind,
                         const void* source) {
  const bool before_model = labels < "model_name";  // vLLM's pages sort labels by name
  fmt::format_to(std::back_inserter(fixed_), "{}{{{}{}{},{}{}{}}} ", name, engine_label_,
                 before_model && !labels.empty() ? "," : "", before_model ? labels : "",
                 model_label_, before_model ? "" : ",", before_model ? "" : labels);
  slots_.push_back({fixed_.size(), kind, 0, source});
  fixed_ += '\n';
}

void MetricsPage::distribution(std::string_view name, std::string_view help,
                               const Distribution& d) {
  family(name, "histogram", help);
  const std::string bucket = fmt::format("{}_bucket", name);
  for (uint32_t i = 0; i <= d.bounds().size(); ++i) {
    const std::string bound = i < d.bounds().size() ? bound_text(d.bounds()[i]) : "+Inf";
    sample(bucket, fmt::format("le=\"{}\"", bound), Kind::kBucket, &d);
    slots_.back().bucket = i;
  }
  sample(fmt::format("{}_count", name), "", Kind::kCount, &d);
  sample(fmt::format("{}_sum", name), "", Kind::kSum, &d);
}

void MetricsPage::lay_out() {
  const Counters& c = engine_.counters();
  static constexpr uint64_t kZero = 0, kOne = 1;
  const auto one = [&](std::string_view name, std::string_view type, std::string_view help,
                       Kind kind, const void* source) {
    family(name, type, help);
    sample(name, "", kind, source);
  };
  const auto counter = [&](std::string_view name, std::string_view help, const uint64_t& source) {
    one(name, "counter", help, Kind::kU64, &source);
  };
  one("vllm:num_requests_running", "gauge", "Requests in execution batches.", Kind::kU32,
      &c.running);
  one("vllm:num_requests_waiting", "gauge", "Requests waiting to be processed.", Kind::kU32,
      &c.waiting);
  one("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage, 1 means 100 percent.", Kind::kUsage,
      nullptr);
  family("vllm:engine_sleep_state", "gauge", "1 for the state the engine is in.");
  sample("vllm:engine_sleep_state", "sleep_state=\"awake\"", Kind::kU64, &kOne);
  sample("vllm:engine_sleep_state", "sleep_state=\"weights_offloaded\"", Kind::kU64, &kZero);
  sample("vllm:engine_sleep_state", "sleep_state=\"discard_all\"", Kind::kU64, &kZero);
  counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
          c.prefix_cache_queries);
  counter("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", c.prefix_cache_hits);
  counter("vllm:num_preemptions_total", "Preemptions.", kZero);
  counter("vllm:prompt_tokens_total", "Prompt tokens processed.", c.prompt_tokens);
  family("vllm:prompt_tokens_by_source_total", "counter", "Prompt tokens by where they came from.");
  sample("vllm:prompt_tokens_by_source_total", "source=\"local_compute\"", Kind::kComputed, &c);
  sample("vllm:prompt_tokens_by_source_total", "source=\"local_cache_hit\"", Kind::kU64,
         &c.prompt_tokens_cached);
  sample("vllm:prompt_tokens_by_source_total", "source=\"external_kv_transfer\"", Kind::kU64,
         &c.prompt_tokens_transferred);
  counter("vllm:prompt_tokens_cached_total", "Cached prompt tokens.", c.prompt_tokens_cached);
  counter("vllm:generation_tokens_total", "Tokens generated.", c.generation_tokens);
  family("vllm:request_success_total", "counter", "Finished requests by reason.");
  for (size_t i = 0; i < kFinishReasons; ++i)
    sample("vllm:request_success_total",
           fmt::format("finished_reason=\"{}\"", finish_reason_name(static_cast<FinishReason>(i))),
           Kind::kU64, &c.finished[i]);
  family("vllm:admission_rejections_total", "counter", "Requests refused by a queue limit.");
  sample("vllm:admission_rejections_total", "reason=\"max_num_queued_reqs\"", Kind::kU64,
         &c.rejected_queue_full);

  distribution("vllm:time_to_first_token_seconds", "From arrival to the first token.",
               c.time_to_first_token);
  distribution("vllm:inter_token_latency_seconds", "Between two tokens.", c.inter_token_latency);
  distribution("vllm:time_per_output_token_seconds", "Older name of inter_token_latency_seconds.",
               c.inter_token_latency);
  distribution("vllm:request_time_per_output_token_seconds", "Mean of a request's token gaps.",
               c.time_per_output_token);
  distribution("vllm:e2e_request_latency_seconds", "From arrival to the last token.",
               c.e2e_latency);
  distribution("vllm:request_queue_time_seconds", "Waiting.", c.queue_time);
  distribution("vllm:request_inference_time_seconds", "Running.", c.inference_time);
  distribution("vllm:request_prefill_time_seconds", "From the start to the first token.",
               c.prefill_time);
  distribution("vllm:request_decode_time_seconds", "From the first to the last token.",
               c.decode_time);
  distribution("vllm:request_prompt_tokens", "Prompt tokens of a request.",
               c.request_prompt_tokens);
  distribution("vllm:request_generation_tokens", "Generated tokens of a request.",
               c.request_generation_tokens);
  distribution("vllm:request_max_num_generation_tokens", "Largest answer of a request.",
               c.request_max_generation_tokens);
  distribution("vllm:request_params_max_tokens", "Requested max_tokens.",
               c.request_params_max_tokens);
  distribution("vllm:request_params_n", "Requested n.", c.request_params_n);
  distribution("vllm:request_prefill_kv_computed_tokens",
               "Prompt tokens computed, cached ones excluded.", c.prefill_kv_computed_tokens);

  const EngineConfig& config = engine_.config();
  family("vllm:cache_config_info", "gauge", "The cache's configuration.");
  sample(
      "vllm:cache_config_info",
      fmt::format("block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"{}\","
                  "kv_cache_size_tokens=\"{}\",num_gpu_blocks=\"{}\"",
                  config.block_tokens, config.prefix_cache ? "True" : "False",
                  uint64_t(config.kv_cache_blocks) * config.block_tokens, config.kv_cache_blocks),
      Kind::kU64, &kOne);
}

void MetricsPage::lay_out_events(const EventCounters& e) {
  family("llmd_sim_kv_blocks_total", "counter", "Blocks that KV events told of.");
  sample("llmd_sim_kv_blocks_total", "event=\"stored\"", Kind::kU64, &e.blocks_stored);
  sample("llmd_sim_kv_blocks_total", "event=\"removed\"", Kind::kU64, &e.blocks_removed);
  family("llmd_sim_kv_blocks", "gauge", "Blocks in the prefix cache.");
  sample("llmd_sim_kv_blocks", "", Kind::kU64, &e.blocks_resident);
  family("llmd_sim_kv_clears_total", "counter", "Resets of the prefix cache.");
  sample("llmd_sim_kv_clears_total", "", Kind::kU64, &e.clears);
  family("llmd_sim_kv_messages_total", "counter", "Messages made of KV events.");
  sample("llmd_sim_kv_messages_total", "", Kind::kU64, &e.messages);
  family("llmd_sim_kv_message_faults_total", "counter", "Messages by what befell them.");
  sample("llmd_sim_kv_message_faults_total", "fault=\"lost\"", Kind::kU64, &e.lost);
  sample("llmd_sim_kv_message_faults_total", "fault=\"duplicated\"", Kind::kU64, &e.duplicated);
  sample("llmd_sim_kv_message_faults_total", "fault=\"reordered\"", Kind::kU64, &e.reordered);
  sample("llmd_sim_kv_message_faults_total", "fault=\"dropped\"", Kind::kU64, &e.dropped);
  family("llmd_sim_kv_replays_total", "counter", "Questions for past messages answered.");
  sample("llmd_sim_kv_replays_total", "", Kind::kU64, &e.replays);
}

std::string_view MetricsPage::render(int64_t unix_seconds) {
  if (rendered_revision_ == revision()) return page_;
  rendered_revision_ = revision();
  page_.clear();
  size_t at = 0;
  uint64_t below = 0;
  for (const Slot& slot : slots_) {
    page_.append(fixed_, at, slot.end - at);
    at = slot.end;
    switch (slot.kind) {
      case Kind::kU32:
        append_integer(page_, *static_cast<const uint32_t*>(slot.source));
        break;
      case Kind::kU64:
        append_integer(page_, *static_cast<const uint64_t*>(slot.source));
        break;
      case Kind::kUsage:
        append_real(page_, engine_.kv_cache_usage());
        break;
      case Kind::kBucket: {
        const auto& d = *static_cast<const Distribution*>(slot.source);
        below = (slot.bucket ? below : 0) + d.counts()[slot.bucket];
        append_integer(page_, below);
        break;
      }
      case Kind::kCount:
        append_integer(page_, static_cast<const Distribution*>(slot.source)->count());
        break;
      case Kind::kSum:
        append_real(page_, static_cast<const Distribution*>(slot.source)->sum());
        break;
      case Kind::kComputed: {
        const auto& c = *static_cast<const Counters*>(slot.source);
        append_integer(page_,
                       c.prompt_tokens - c.prompt_tokens_cached - c.prompt_tokens_transferred);
        break;
      }
    }
  }
  page_.append(fixed_, at);
  append_loras(unix_seconds);
  return page_;
}

/// One series only: those of past combinations are not kept.
void MetricsPage::append_loras(int64_t unix_seconds) {
  if (engine_.adapters().empty()) return;
  std::string running, waiting;
  for (const Adapter& a : engine_.adapters()) {
    if (a.running) running += (running.empty() ? "" : ",") + escaped_label(a.name);
    if (a.waiting) waiting += (waiting.empty() ? "" : ",") + escaped_label(a.name);
  }
  fmt::format_to(std::back_inserter(page_),
                 "# HELP vllm:lora_requests_info Adapters in use, stamped with the time.\n"
                 "# TYPE vllm:lora_requests_info gauge\n"
                 "vllm:lora_requests_info{{max_lora=\"{}\",running_lora_adapters=\"{}\","
                 "waiting_lora_adapters=\"{}\"}} {}\n",
                 engine_.config().max_loras, running, waiting, unix_seconds);
}

}  // namespace llmd::sim
