#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "base/clock.h"
#include "base/executor.h"
#include "base/rng.h"

namespace llmd::io {

/// A cancellable deadline of a Loop. Embed it in the object that waits; arming again replaces the old time. Destroying or
/// cancelling it is O(1) and free of system calls.
class Timer;

/// One thread's event loop: sockets through Asio, deadlines through a wheel of its own (one Asio timer drives them all, so
/// that arming one costs no system call), work posted by other threads.
/// Threading: everything but post(), stop() and index() belongs to the loop's own thread.
class Loop final : public Executor {
 public:
  /// `index`: position among the process's loops; metric cell index + 1.
  explicit Loop(size_t index, uint64_t seed, const Clock& clock = real_clock());
  ~Loop() override;

  size_t index() const { return index_; }
  boost::asio::io_context& context() { return context_; }
  Rng& rng() { return rng_; }
  const Clock& clock() const { return clock_; }

  void post(std::move_only_function<void()> work) override;

  /// Runs until stop(). Names the thread `name` and claims its metric cell.
  void run(const std::string& name);
  void stop();

 private:
  friend class Timer;
  struct Wheel;
  const size_t index_;
  const Clock& clock_;
  boost::asio::io_context context_;
  Rng rng_;
  std::unique_ptr<Wheel> wheel_;
};

class Timer {
 public:
  explicit Timer(Loop& loop) : loop_(&loop) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Calls `fire` once, `delay` from now or up to 1 ms later. `fire` may destroy the timer.
  void arm(Nanos delay, std::move_only_function<void()> fire);
  void cancel();
  bool armed() const { return armed_; }

 private:
  friend struct Loop::Wheel;
  Loop* loop_;
  Timer* next_ = nullptr;
  Timer** link_ = nullptr;
  TimePoint at_{};
  bool armed_ = false;
  std::move_only_function<void()> fire_;
};

}  // namespace llmd::io
