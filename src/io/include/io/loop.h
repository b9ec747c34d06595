#pragma once

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "io/buffer_pool.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmd::io {

/// A cancellable deadline of a Loop. Embed it in the object that waits; arming again replaces the
/// old time. Arming, destroying or cancelling it is O(1) and free of system calls.
class Timer;

/// What happened to a file descriptor. Bits of Pollable::on_ready().
enum Ready : uint32_t {
  kReadable = 1,  // bytes, a connection or the end of the stream can be read
  kWritable = 2,  // there is room again
  kPeerGone = 4,  // the peer has closed or reset; bytes may still be there to read
};

/// The owner of a watched file descriptor.
class Pollable {
 public:
  /// May destroy this object or any other Pollable.
  virtual void on_ready(uint32_t ready) = 0;

 protected:
  ~Pollable() = default;
};

/// Work for the end of the current turn (one batch of events). Embed it; queueing it twice in a
/// turn runs it once.
class TurnTask {
 public:
  TurnTask() = default;
  TurnTask(const TurnTask&) = delete;
  TurnTask& operator=(const TurnTask&) = delete;
  virtual void at_turn_end() = 0;

 protected:
  /// Leaves the queue when still in it.
  virtual ~TurnTask();

 private:
  friend class Loop;
  TurnTask* next_task_ = nullptr;
  TurnTask** task_link_ = nullptr;
};

/// One thread's event loop: edge-triggered epoll, deadlines in a wheel that sets the poll's
/// time-out, and work posted by other threads. A descriptor is registered once for its life, so
/// waiting for it again costs no system call. Threading: everything but post(), stop() and index()
/// belongs to the loop's own thread.
class Loop final : public Executor {
 public:
  /// `index`: position among the process's loops; metric cell index + 1.
  explicit Loop(size_t index, uint64_t seed, const Clock& clock = real_clock());
  ~Loop() override;

  size_t index() const { return index_; }
  Rng& rng() { return rng_; }
  const Clock& clock() const { return clock_; }
  /// Shared by everything that moves bytes on this loop.
  BufferPool& buffers() { return buffers_; }
  /// The time at which the current turn began: free to read, late by the length of the turn so far.
  TimePoint turn_time() const { return turn_time_; }

  /// Reports edges of `fd` to `pollable`: each report means that the state may have changed since
  /// the last read or write that met EAGAIN or a short count. Requires: `fd` is non-blocking and
  /// not watched. CHECKs on exhaustion of kernel memory.
  void watch(int fd, Pollable& pollable);
  /// Ends the reports to `pollable`, those of the current turn included. Requires: `fd` is closed
  /// right after this (closing is what takes it out of the kernel's set).
  void forget(Pollable& pollable);
  /// As forget(), for a descriptor that stays open.
  void unwatch(int fd, Pollable& pollable);

  void at_turn_end(TurnTask& task);

  /// Threading: any. Work that is still queued when the loop is destroyed is destroyed without
  /// having run.
  void post(std::move_only_function<void()> work) override;

  /// Runs until stop(). Names the thread `name` and claims its metric cell.
  void run(const std::string& name);
  /// Threading: any, also before run(), which then returns at once.
  void stop();

  /// One turn: waits for `wait` at most (0: not at all), runs what is ready, due or posted. For
  /// tests and for programs with a loop of their own.
  void turn(Nanos wait);

 private:
  friend class Timer;
  friend class TurnTask;
  struct Wheel;
  void run_posted();
  void run_turn_tasks();
  void wake();

  const size_t index_;
  const Clock& clock_;
  Rng rng_;
  BufferPool buffers_;
  TimePoint turn_time_;
  std::unique_ptr<Wheel> wheel_;

  struct Events;
  std::unique_ptr<Events> events_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  TurnTask* turn_tasks_ = nullptr;

  Mutex posted_mutex_;
  std::vector<std::move_only_function<void()>> posted_ LLMD_GUARDED_BY(posted_mutex_);
  std::vector<std::move_only_function<void()>> running_;
  std::atomic<bool> wake_sent_{false};
  std::atomic<bool> stopped_{false};
};

class Timer {
 public:
  explicit Timer(Loop& loop) : loop_(&loop) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Calls `fire` once, `delay` from now or up to 1 ms later. `fire` may destroy the timer. A
  /// callable of at most two pointers costs no allocation.
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
