#include "metrics.h"

#include "metric/buckets.h"

#include <array>

namespace llmd::kv_events {
namespace {

using metric::Definition;
using metric::Kind;

constexpr std::string_view kPod = "pod_identifier";

Definition counter_of(std::string_view name, std::string_view help,
                      std::vector<std::string_view> labels = {}) {
  return {name, Kind::kCounter, help, std::move(labels), {}, {}};
}

const Definition kSubscribers = {"llm_d_epp_kv_cache_events_active_subscribers",
                                 Kind::kGauge,
                                 "Endpoints whose KV events are followed.",
                                 {},
                                 {},
                                 {}};
const Definition kThreads = {"llm_d_epp_kv_cache_events_pool_capacity",
                             Kind::kGauge,
                             "Threads that apply KV events.",
                             {},
                             {},
                             {}};
const Definition kWaiting = {"llm_d_epp_kv_cache_events_pool_queue_depth",
                             Kind::kGauge,
                             "Messages with KV events that wait for missed ones before them.",
                             {},
                             {},
                             {}};
const Definition kMessages = counter_of("llm_d_epp_kv_cache_events_messages_received_total",
                                        "Messages with KV events.", {kPod});
const Definition kReconnections =
    counter_of("llm_d_epp_kv_cache_events_subscriber_reconnections_total",
               "Connections for KV events made again.", {kPod});
const Definition kErrors = counter_of("llm_d_epp_kv_cache_events_zmq_errors_total",
                                      "Faults of connections for KV events.", {kPod, "operation"});
const Definition kLost = counter_of("llmd_kv_event_batches_lost_total",
                                    "Batches of KV events that were missed for good.", {kPod});
const Definition kEvents = counter_of("llmd_kv_events_total", "KV events handed on.", {"type"});
const Definition kSkipped =
    counter_of("llmd_kv_events_skipped_total",
               "KV events, batches and messages that were left out, by reason.", {"reason"});
const Definition kResets = counter_of("llmd_kv_event_publisher_restarts_total",
                                      "Publishers of KV events that began anew.");
const Definition kReplays =
    counter_of("llmd_kv_event_replays_total", "Questions for missed KV events.", {"result"});
const Definition kLag = {"llmd_kv_event_lag_seconds",
                         Kind::kHistogram,
                         "From the publishing of live KV events to their hand-over.",
                         {},
                         metric::buckets::kStream,
                         {}};

metric::Counter labelled(metric::Registry& registry, const Definition& definition,
                         std::string_view value) {
  return registry.family(definition).counter(std::array{value});
}

}  // namespace

SubscriberMetrics::SubscriberMetrics(metric::Registry& registry)
    : subscribers(registry.family(kSubscribers).gauge({})),
      threads(registry.family(kThreads).gauge({})),
      waiting(registry.family(kWaiting).gauge({})),
      stored(labelled(registry, kEvents, "stored")),
      removed(labelled(registry, kEvents, "removed")),
      cleared(labelled(registry, kEvents, "cleared")),
      unknown(labelled(registry, kSkipped, "unknown_event")),
      malformed(labelled(registry, kSkipped, "malformed_event")),
      bad_frames(labelled(registry, kSkipped, "malformed_message")),
      bad_batches(labelled(registry, kSkipped, "malformed_batch")),
      refused(labelled(registry, kSkipped, "too_many_publishers")),
      resets(registry.family(kResets).counter({})),
      replays(labelled(registry, kReplays, "complete")),
      replays_failed(labelled(registry, kReplays, "failed")),
      lag(registry.family(kLag).histogram({})),
      messages_(registry.family(kMessages)),
      reconnections_(registry.family(kReconnections)),
      lost_(registry.family(kLost)),
      errors_(registry.family(kErrors)) {}

PodMetrics SubscriberMetrics::pod(std::string_view pod) {
  const std::array label{pod};
  return {messages_.counter(label), reconnections_.counter(label), lost_.counter(label)};
}

void SubscriberMetrics::forget_pod(std::string_view pod) {
  for (metric::Family* family : {&messages_, &reconnections_, &lost_, &errors_})
    family->forget(kPod, pod);
}

void SubscriberMetrics::error(std::string_view pod, std::string_view operation) {
  errors_.counter(std::array{pod, operation}).add();
}

}  // namespace llmd::kv_events
