#pragma once

#include "sim/engine.h"
#include "sim/event_counters.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::sim {

/// The /metrics page of one simulated engine under vLLM's names and labels (engine, model_name), in
/// Prometheus text format. Everything but the numbers is laid out once; a page is rendered again
/// only after a counter changed. Threading: the engine's. Cost: about 30 ns a line when something
/// changed, else nothing. Lifetime: not beyond the engine. The text stays valid until the next
/// call.
class MetricsPage {
 public:
  /// `events`: of the server's KV events, under names of our own; null: it publishes none.
  MetricsPage(const Engine& engine, std::string_view model_name, uint32_t engine_index = 0,
              const EventCounters* events = nullptr);

  /// `unix_seconds` stamps vllm:lora_requests_info, whose consumers take the newest series.
  std::string_view render(int64_t unix_seconds);

 private:
  enum class Kind : uint8_t { kU32, kU64, kBucket, kCount, kSum, kUsage, kComputed };
  struct Slot {
    size_t end;  // of the fixed text before the number
    Kind kind;
    uint32_t bucket;
    const void* source;
  };

  void lay_out();
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(std::string_view name, std::string_view labels, Kind kind, const void* source);
  void distribution(std::string_view name, std::string_view help, const Distribution& d);
  void lay_out_events(const EventCounters& events);
  uint64_t revision() const { return engine_.revision() + (events_ ? events_->revision : 0); }
  void append_loras(int64_t unix_seconds);

  const Engine& engine_;
  const EventCounters* const events_;
  std::string engine_label_, model_label_;
  std::string fixed_;
  std::vector<Slot> slots_;
  std::string page_;
  uint64_t rendered_revision_ = UINT64_MAX;
};

}  // namespace llmd::sim
