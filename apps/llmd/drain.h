#pragma once

#include "base/clock.h"
#include "io/loop.h"
#include "io/signals.h"

#include <atomic>
#include <functional>
#include <thread>

namespace llmd {

struct DrainOptions {
  Nanos drain_timeout = std::chrono::seconds(30);    // between SIGTERM and the end of serving
  Nanos shutdown_grace = std::chrono::seconds(100);  // for what is still open then
};

/// How a serving command ends. SIGTERM, from a supervisor, has two phases: for `drain_timeout`
/// everything goes on but draining() is true, so that readiness fails and load balancers send new
/// connections elsewhere; then `finish` runs. SIGINT, from a terminal, skips the first phase and
/// shortens the grace to kInterruptGrace. A second signal ends the process at once with code 1,
/// except within kSameStop: some supervisors signal the process and then its group.
///
/// `finish(grace)` stops serving: it closes listeners, says goodbye on open connections
/// (`Connection: close`, GOAWAY), waits for what is open and cuts off what is left after `grace`.
/// It runs on a thread of its own and may block; after it the control loop is stopped.
/// Threading: the control loop's thread, draining() any. Lifetime: destroyed after the loop has
/// ended, what `finish` uses is destroyed later.
class Drain {
 public:
  static constexpr Nanos kInterruptGrace = std::chrono::seconds(5);
  static constexpr Nanos kSameStop = std::chrono::milliseconds(50);

  /// `end_process` replaces the end at a second signal in tests.
  Drain(io::Loop& control, DrainOptions options, std::function<void(Nanos grace)> finish,
        std::function<void()> end_process = {});

  /// SIGTERM or SIGINT has come.
  void on_signal(int signal);
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

 private:
  void finish(Nanos grace);

  io::Loop& control_;
  const DrainOptions options_;
  const std::function<void(Nanos)> finish_;
  const std::function<void()> end_process_;
  std::atomic<bool> draining_{false};
  TimePoint since_{};
  io::Timer timer_;
  std::jthread finisher_;
};

/// While a command is starting, which can take long, its loop does not run and would see signals
/// late: SIGTERM or SIGINT then ends the process at once, with code 0, since nobody is being
/// served. Requires: constructed before other threads start, after the Signals that get them later.
class EndWhileStarting {
 public:
  EndWhileStarting();
  ~EndWhileStarting();

 private:
  io::Loop loop_;
  const io::Signals signals_;
  std::jthread thread_;
};

}  // namespace llmd
