#pragma once

#include "base/mutex.h"
#include "metric/registry.h"
#include "redis/client.h"

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <string_view>

namespace llmd::kv_shared {

/// Commands that belong together, or the clearing of a pod.
struct Change {
  std::string pod;
  std::string commands;
  size_t count = 0;  // of commands; 0: the pod is cleared

  size_t bytes() const { return sizeof *this + pod.size() + commands.size(); }
};

/// Counters of commands by what became of them.
struct ChangeMetrics {
  metric::Counter written, refused, lost;
};

/// Changes on their way to the server, in order. What the server has not confirmed when a
/// connection breaks is sent again on the next: each change leaves the same behind if it is made
/// twice. Threading: push() any, all else the loop of the client.
class ChangeQueue final : redis::ReplyHandler {
 public:
  ChangeQueue(io::Loop& loop, size_t bytes_max, ChangeMetrics metrics)
      : loop_(loop), bytes_max_(bytes_max), metrics_(metrics) {}

  /// Requires: before anything else.
  void set_client(redis::Client& client) { client_ = &client; }

  void push(Change change);

  void on_up() { pump(); }
  void on_down();

 private:
  void on_reply(const redis::Reply& reply) override;
  void on_failure() override {}

  void pump();
  bool next(Change& change);
  void send_page(std::string_view cursor);
  void drop_all() LLMD_REQUIRES(mutex_);

  io::Loop& loop_;
  const size_t bytes_max_;
  const ChangeMetrics metrics_;
  redis::Client* client_ = nullptr;
  std::deque<Change> sent_;  // and not confirmed
  size_t sent_bytes_ = 0;
  size_t confirmed_ = 0;   // commands of the first of them
  bool clearing_ = false;  // the last of them clears a pod

  Mutex mutex_;
  std::deque<Change> waiting_ LLMD_GUARDED_BY(mutex_);
  size_t bytes_ LLMD_GUARDED_BY(mutex_) = 0;                  // of those
  std::set<std::string> incomplete_ LLMD_GUARDED_BY(mutex_);  // pods to clear before all else
  bool woken_ LLMD_GUARDED_BY(mutex_) = false;
};

}  // namespace llmd::kv_shared
