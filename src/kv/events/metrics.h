#pragma once

#include "metric/registry.h"

#include <string_view>

namespace llmd::kv_events {

/// Counters of one pod. Handles write nothing until made by SubscriberMetrics.
struct PodMetrics {
  metric::Counter messages;
  metric::Counter reconnections;
  metric::Counter lost;
};

/// All that a subscriber counts. Threading: as the registry's.
class SubscriberMetrics {
 public:
  explicit SubscriberMetrics(metric::Registry& registry);

  PodMetrics pod(std::string_view pod);
  /// Takes the pod's series from the page.
  void forget_pod(std::string_view pod);
  /// `operation`: bind, connect, replay-connect, replay-capacity, replay-incomplete,
  /// replay-no-progress.
  void error(std::string_view pod, std::string_view operation);

  metric::Gauge subscribers;
  metric::Gauge threads;
  metric::Gauge waiting;                     // messages; those that wait in sockets are not seen
  metric::Counter stored, removed, cleared;  // events
  metric::Counter unknown, malformed;        // events left out
  metric::Counter bad_frames, bad_batches;   // messages left out
  metric::Counter refused;                   // publishers beyond the limit
  metric::Counter resets, replays, replays_failed;
  metric::Histogram lag;

 private:
  metric::Family& messages_;
  metric::Family& reconnections_;
  metric::Family& lost_;
  metric::Family& errors_;
};

}  // namespace llmd::kv_events
