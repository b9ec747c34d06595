#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "kv_events/engine_adapter.h"
#include "kv_events/event_sink.h"
#include "metric/registry.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace llmd::kv_events {

struct SubscriberOptions {
  const EngineAdapter* adapter = nullptr;  // null: that of vLLM
  /// Threads that read, decode and hand on; a pod belongs to one of them.
  size_t threads = 4;
  /// Where engines connect to and publish; "": nowhere.
  std::string bind_endpoint;
  std::string topic_filter = "kv@";  // topics that begin so
  /// Messages of one pod that wait in memory. Further ones wait at the engine, which drops them
  /// in the end: a gap, and a replay where there is one.
  int waiting_messages_max = 16384;
};

/// An engine that publishes on a port of its own.
struct PublisherSpec {
  std::string id;               // "namespace/name"; one at a time is followed under it
  std::string pod;              // "address:port" of the endpoint
  uint64_t owner = 0;           // the sink's business; not 0
  std::string endpoint;         // tcp://10.0.0.1:5557
  std::string replay_endpoint;  // "": what is lost is lost
  std::string model;            // where topics do not tell; "" when not known

  bool operator==(const PublisherSpec&) const = default;
};

/// "tcp://ADDRESS:PORT", an IPv6 address bracketed. Requires: `address` is an IP literal.
std::string tcp_endpoint(std::string_view address, uint16_t port);

/// Follows the KV events of a fleet and hands them to a sink: engines that bind are connected to,
/// engines that connect are listened for. Each publisher's numbers are checked; what is missing is
/// asked for again or reported.
///
/// Queues: only libzmq's, bounded per pod by waiting_messages_max. A pod whose events are being
/// replayed is not read meanwhile, others are.
/// Threading: follow() and unfollow() from any thread, each takes effect on the pod's own; the sink
/// is called from these threads. Destroying waits for them; after it the sink is not called.
class Subscriber {
 public:
  /// `first_cell`: index of the first thread's loop, as metric cell. Errors say why the endpoint
  /// cannot be bound. Requires: sink, metrics and clock outlive it.
  static Result<std::unique_ptr<Subscriber>> start(SubscriberOptions options, EventSink& sink,
                                                   metric::Registry& metrics, size_t first_cell,
                                                   const Clock& clock = real_clock());
  ~Subscriber();

  /// Connects. Does nothing when this very spec is followed; replaces another one of that id.
  void follow(PublisherSpec spec);
  /// Disconnects, and takes leave of the publisher.
  void unfollow(const std::string& id);
  /// Takes leave of what was found by topics of this pod.
  void forget_pod(const std::string& pod);

  /// What was bound, with the port that an open one became; "" when nothing is.
  std::string bound_endpoint() const;
  /// Publishers that are followed by spec, now.
  size_t followed() const;

 private:
  struct State;
  explicit Subscriber(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace llmd::kv_events
