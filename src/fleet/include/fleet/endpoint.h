#pragma once

#include "base/clock.h"
#include "fleet/engine_details.h"
#include "fleet/health.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::fleet {

/// A model server's load as last scraped. Plain data: copied out of a seqlock slot.
struct EndpointMetrics {
  int64_t waiting_queue_size = 0;
  int64_t running_requests_size = 0;
  double kv_cache_usage = 0;     // fraction, 0..1
  int64_t cache_block_size = 0;  // tokens; 0: not reported
  int64_t cache_num_blocks = 0;  // 0: not reported
  int64_t kv_cache_max_tokens = 0;
  int64_t max_active_models = 0;  // LoRA adapters
  TimePoint updated{};            // of the last successful scrape; epoch: never
  Nanos interval{0};              // the interval at which this endpoint is scraped now

  bool ever_updated() const { return updated.time_since_epoch().count() != 0; }
};

/// Single writer, any number of readers, no locks: readers retry while a write is under way.
class MetricsSlot {
 public:
  void store(const EndpointMetrics& m);  // Threading: the scrape thread only
  EndpointMetrics load() const;          // Threading: any

 private:
  static constexpr size_t kWords = (sizeof(EndpointMetrics) + 7) / 8;
  std::atomic<uint32_t> sequence_{0};
  std::atomic<uint64_t> words_[kWords]{};
};

/// What discovery says about a model server. Equality decides whether an update changes anything.
struct EndpointSpec {
  std::string name;
  std::string ns = "default";
  std::string address;  // IPv4 or IPv6 literal, no brackets
  uint16_t port = 0;
  std::vector<std::pair<std::string, std::string>> labels;  // sorted by key
  std::string scheme = "http";                              // or "https"
  std::string
      host_name;  // set when the address came from a name that is resolved again from time to time
  std::string server_name;  // with https: that its certificate must be for; "": host_name, address

  bool operator==(const EndpointSpec&) const = default;
};

/// "address:port", an IPv6 address bracketed.
std::string host_port(std::string_view address, uint16_t port);

/// One model server, for as long as it keeps its address. Identity is (slot, generation): a slot is
/// a small number that indexes arrays and bit sets, reused after an endpoint is gone; the
/// generation never repeats, so state kept for a dead endpoint is never taken for its successor's.
/// Lifetime: shared by the snapshots that list it and by the requests pinned to those.
/// Threading: identity is immutable; metrics and counters are atomic.
class Endpoint {
 public:
  Endpoint(EndpointSpec spec, uint32_t slot, uint64_t generation);

  const EndpointSpec& spec() const { return spec_; }
  uint32_t slot() const { return slot_; }
  uint64_t generation() const { return generation_; }
  /// "namespace/name"
  const std::string& id() const { return id_; }
  /// The same as a number that is hardly shared with another id.
  uint64_t id_hash() const { return id_hash_; }
  /// "address:port", IPv6 bracketed: the value of the destination header.
  const std::string& host_port() const { return host_port_; }
  /// The label's value, or null when it is absent.
  const std::string* label(std::string_view key) const;

  // What every decision reads of every endpoint comes first, on two cache lines.
 private:
  alignas(64) const uint32_t slot_;
  const uint64_t generation_;

 public:
  EndpointHealth health;
  MetricsSlot metrics;
  /// Requests sent to this endpoint by this process and not finished. Not on a line that
  /// decisions read: every loop writes it with every request.
  alignas(64) std::atomic<int64_t> open_requests{0};
  /// Of the answers that told how much of their prompt was cached: tokens of the prompts, and the
  /// cached ones among them.
  std::atomic<int64_t> prompt_tokens{0};
  std::atomic<int64_t> cached_tokens{0};
  alignas(64) DetailsSlot details;

 private:
  const EndpointSpec spec_;
  const std::string id_;
  const uint64_t id_hash_;
  const std::string host_port_;
};

using EndpointPtr = std::shared_ptr<Endpoint>;

/// The endpoints at one moment. Changes only with membership. Order: by id.
struct Snapshot {
  uint64_t version = 0;
  std::vector<EndpointPtr> endpoints;
};
using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// Told of membership changes from the control thread: per change first every removal, then every
/// addition, then loops see the new snapshot. An endpoint whose labels changed is reported by
/// on_added() with its old slot and generation. Implementations must not change the fleet or its
/// listeners.
class MembershipListener {
 public:
  virtual ~MembershipListener() = default;
  virtual void on_added(const EndpointPtr&) {}
  virtual void on_removed(const EndpointPtr&) {}
};

}  // namespace llmd::fleet
