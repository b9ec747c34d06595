#pragma once

#include "io/loop.h"

#include <string>
#include <thread>

namespace llmd::io {

/// A loop with a thread of its own, as control work (scraping, discovery) and tests use it.
/// Threading: construct and destroy on one thread; the loop follows Loop's rules once started.
class LoopThread {
 public:
  LoopThread(std::string name, size_t index, uint64_t seed, const Clock& clock = real_clock())
      : loop_(index, seed, clock), name_(std::move(name)) {}
  ~LoopThread() { stop(); }

  Loop& loop() { return loop_; }
  void start() {
    thread_ = std::thread([this] { loop_.run(name_); });
  }
  /// Stops the loop and waits for its thread. Idempotent. Afterwards the calling thread owns the
  /// loop.
  void stop() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  Loop loop_;
  std::string name_;
  std::thread thread_;
};

}  // namespace llmd::io
