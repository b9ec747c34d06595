#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "io/loop.h"
#include "kv_events/zmq_socket.h"
#include "sim/counters.h"
#include "sim/settings.h"
#include "tls/context.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace llmd::sim {

/// The simulators' time: real time since the start, stretched. Engines see only this.
class ModelClock {
 public:
  explicit ModelClock(const Clock& clock, double scale = 1)
      : clock_(clock), scale_(scale), origin_(clock.now()) {}

  TimePoint now() const {
    const Nanos elapsed = clock_.now() - origin_;
    return TimePoint(
        scale_ == 1 ? elapsed
                    : Nanos(static_cast<int64_t>(static_cast<double>(elapsed.count()) * scale_)));
  }
  /// How long to wait in real time until `due`; not below zero.
  Nanos until(TimePoint due) const {
    const Nanos left = due - now();
    if (left.count() <= 0) return Nanos(0);
    return scale_ == 1 ? left
                       : Nanos(static_cast<int64_t>(static_cast<double>(left.count()) / scale_));
  }
  const Clock& real() const { return clock_; }

 private:
  const Clock& clock_;
  const double scale_;
  const TimePoint origin_;
};

/// One simulated vLLM server: an engine behind an HTTP port.
/// Threading: one loop; construct and destroy on it, or while it does not run.
class Server {
 public:
  /// `tls` null: plain HTTP. `zmq` null: no KV events; else it outlives the server.
  Server(io::Loop& loop, const EndpointPlan& plan, const ModelClock& clock,
         std::shared_ptr<tls::Context> tls = nullptr, kv_events::ZmqContext* zmq = nullptr);
  ~Server();

  Status listen();
  /// The port in use; the planned one unless that was 0.
  uint16_t port() const;
  const Counters& counters() const;
  /// Answers new requests 503, lets open ones finish for `grace`, then closes.
  void stop(Nanos grace, std::move_only_function<void()> done);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// All servers of one process on their loops' threads.
/// Threading: one thread constructs, uses and destroys it; the loops run on threads of their own.
class Fleet {
 public:
  /// Starts the threads and listens everywhere; returns when every server accepts.
  static Result<std::unique_ptr<Fleet>> start(const Settings& settings);
  ~Fleet();

  /// The servers with the ports they got.
  const std::vector<EndpointPlan>& endpoints() const { return plans_; }
  /// Drains every server for at most `grace`, then stops the threads.
  void stop(Nanos grace);

 private:
  struct Shard;
  explicit Fleet(std::vector<EndpointPlan> plans);
  std::vector<EndpointPlan> plans_;
  std::unique_ptr<kv_events::ZmqContext> zmq_;  // null: no server publishes KV events
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace llmd::sim
