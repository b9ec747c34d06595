#include "bench/engine_counters.h"

#include "base/text.h"

namespace llmd::bench {
namespace {

double* field_of(EngineCounters& counters, std::string_view name) {
  if (name == "vllm:request_success_total") return &counters.requests;
  if (name == "vllm:prefix_cache_hits_total") return &counters.cache_hits;
  if (name == "vllm:prefix_cache_queries_total") return &counters.cache_queries;
  if (name == "vllm:request_prefill_kv_computed_tokens_sum") return &counters.prefill_tokens;
  return nullptr;
}

}  // namespace

EngineCounters read_counters(std::string_view page) {
  EngineCounters counters;
  while (!page.empty()) {
    const size_t end = page.find('\n');
    const std::string_view line = trim(page.substr(0, end));
    page = end == std::string_view::npos ? std::string_view{} : page.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    double* field = field_of(counters, line.substr(0, line.find_first_of("{ ")));
    if (!field) continue;
    // Label values may hold any byte; the value follows the last '}' or, without labels, the name.
    const size_t labels_end = line.rfind('}');
    std::string_view rest =
        trim(line.substr(labels_end == std::string_view::npos ? line.find(' ') : labels_end + 1));
    rest = rest.substr(0, rest.find(' '));
    *field += parse_double(rest).value_or(0);
  }
  return counters;
}

}  // namespace llmd::bench
