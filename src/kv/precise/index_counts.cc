#include "kv_precise/index_counts.h"

#include "shared_cell.h"

#include "base/log.h"
#include "base/rng.h"
#include "metric/buckets.h"

namespace llmd::kv_precise {
namespace {

using metric::Definition;
using metric::Kind;

Definition counter(std::string_view name, std::string_view help, std::string_view twin) {
  return {.name = name,
          .kind = Kind::kCounter,
          .help = help,
          .labels = {},
          .buckets = {},
          .twins = {{twin, {}}}};
}

const Definition kAdmissions =
    counter("llm_d_epp_kv_cache_index_admissions_total", "Blocks that engines reported as stored.",
            "kvcache_index_admissions_total");
const Definition kEvictions =
    counter("llm_d_epp_kv_cache_index_evictions_total", "Blocks that engines reported as removed.",
            "kvcache_index_evictions_total");
const Definition kLookups =
    counter("llm_d_epp_kv_cache_index_lookup_requests_total", "Prompts that were looked up.",
            "kvcache_index_lookup_requests_total");
const Definition kHits = counter("llm_d_epp_kv_cache_index_lookup_hits_total",
                                 "Blocks of prompts that their best endpoint held from the start.",
                                 "kvcache_index_lookup_hits_total");
const Definition kMaxHits = counter("llm_d_epp_kv_cache_index_max_pod_hit_count_total",
                                    "The same as llm_d_epp_kv_cache_index_lookup_hits_total.",
                                    "kvcache_index_max_pod_hit_count_total");
const Definition kLatency = {.name = "llm_d_epp_kv_cache_index_lookup_latency_seconds",
                             .kind = Kind::kHistogram,
                             .help = "Duration of look-ups.",
                             .labels = {},
                             .buckets = metric::buckets::kDef,
                             .twins = {{"kvcache_index_lookup_latency_seconds", {}}}};

}  // namespace

IndexCounts::IndexCounts(metric::Registry& registry)
    : admissions_{.counter = registry.family(kAdmissions).counter({})},
      evictions_{.counter = registry.family(kEvictions).counter({})},
      lookups_{.counter = registry.family(kLookups).counter({})},
      hits_{.counter = registry.family(kHits).counter({})},
      max_hits_(registry.family(kMaxHits).counter({})),
      latency_(registry.family(kLatency).histogram({})) {}

void IndexCounts::looked_up(size_t longest, Nanos took) {
  latency_.observe(seconds(took));
  nanos_.fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
  lookups_.add(1);
  hits_.add(longest);
  max_hits_.add(static_cast<double>(longest));
}

void IndexCounts::log() const {
  const uint64_t lookups = lookups_.now();
  const double sum = static_cast<double>(nanos_.load(std::memory_order_relaxed)) * 1e-9;
  log::info("metrics beat",
            {{"admissions", admissions_.now()},
             {"evictions", evictions_.now()},
             {"lookups", lookups},
             {"hits", hits_.now()},
             {"max_pod_hit_count", hits_.now()},
             {"latency_count", lookups},
             {"latency_sum", sum},
             {"latency_avg", lookups == 0 ? 0 : sum / static_cast<double>(lookups)}});
}

IndexBeat::IndexBeat(const IndexCounts& counts, Nanos interval, const Clock& clock)
    : counts_(counts),
      interval_(interval),
      thread_("kv-index-beat", kSharedCell, random_seed(), clock),
      timer_(thread_.loop()) {
  arm();
  thread_.start();
}

void IndexBeat::arm() {
  timer_.arm(interval_, [this] {
    counts_.log();
    arm();
  });
}

}  // namespace llmd::kv_precise
