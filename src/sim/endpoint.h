#pragma once

#include "api.h"
#include "event_publisher.h"

#include "base/headers.h"
#include "io/loop.h"
#include "kv_events/zmq_socket.h"
#include "sim/engine.h"
#include "sim/metrics_page.h"
#include "sim/server.h"

#include <string>

namespace llmd::sim {

/// What the connections of one simulated server share: its engine and the timer that drives it.
/// Threading: the server's loop.
class Endpoint {
 public:
  /// `zmq` null: no KV events.
  Endpoint(io::Loop& loop, const EndpointPlan& plan, const ModelClock& clock,
           kv_events::ZmqContext* zmq);

  /// Once the port is known. Errors name the ZeroMQ endpoint.
  Status publish_events();

  /// Emits what is due and arms the timer for what comes next. Call after every change to the
  /// engine.
  void pump();

  bool starting() const { return clock.now() - started_model < config.startup_duration; }
  int64_t unix_seconds() const;
  uint32_t rank() const;
  /// Whether the base model is known by `name`; "" stands for it.
  bool serves(std::string_view name) const;
  std::string next_id();
  std::string models_body() const;
  std::string event_sources_body() const;
  /// Replaces the configuration; delays take effect at once.
  void reconfigure(ServerConfig changed);

  io::Loop& loop;
  const ModelClock& clock;
  ServerConfig config;
  const std::string address;
  const std::unique_ptr<EventPublisher> events;  // null: none
  Engine engine;
  MetricsPage page;
  const TimePoint started_model;
  const int64_t created;
  uint64_t next_request = 0;
  bool draining = false;
  std::vector<std::pair<std::string, std::string>> identity_headers;
  std::string scratch;  // of the answer being rendered

 private:
  io::Timer timer_;
  bool pumping_ = false;
};

}  // namespace llmd::sim
