#pragma once

#include "io/loop.h"
#include "io/socket.h"

#include <functional>
#include <initializer_list>

namespace llmd::io {

/// Delivers signals of the process to a loop, as ordinary events.
/// Requires: constructed before other threads start, since they inherit the mask that keeps the
/// signals from them. Threading: the loop's thread; construct and destroy there too, or while the
/// loop does not run.
class Signals final : Pollable {
 public:
  Signals(Loop& loop, std::initializer_list<int> signals, std::function<void(int)> on_signal);
  /// The signals stay blocked.
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  void on_ready(uint32_t ready) override;

  Loop& loop_;
  const std::function<void(int)> on_signal_;
  Fd fd_;
};

}  // namespace llmd::io
