#pragma once

#include "metric/registry.h"
#include "route/director.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <memory>

namespace llmd::route {

/// Who is called. All calls come on the loop, never within those of Suspension.
class Suspendable {
 public:
  virtual void on_resume() = 0;
  virtual void on_deadline() = 0;
  virtual void on_evict() = 0;

 protected:
  ~Suspendable() = default;
};

/// The ways back into a request: its resume and its deadline while it waits for a plugin, and its
/// eviction. Each may come when the request has moved on or is gone; it then changes nothing, and a
/// late resume is counted. Threading: one loop; what resume() returns may be called from any
/// thread.
class Suspension {
 public:
  Suspension(LoopHost& host, metric::Counter stale, Suspendable& owner)
      : host_(host), stale_(stale), owner_(owner) {}
  ~Suspension() {
    if (anchor_) anchor_->suspension = nullptr;
  }
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

  /// Wakes the owner. Those made before are stale.
  schedule::Signal resume();
  /// The same after `delay`.
  void resume_after(Nanos delay);
  /// Tells the owner after `delay`, unless it has been woken by then.
  void wake_after(Nanos delay);
  /// Evicts the request.
  schedule::Signal eviction();
  /// The suspension is over.
  void settle() { ++ticket_; }
  /// The request is over: everything handed out so far is stale.
  void end() { settle(), ++request_; }

 private:
  /// Outlives the request in what was handed out.
  struct Anchor {
    Suspension* suspension;
  };
  std::weak_ptr<Anchor> anchor();
  /// Calls `then` after `delay`, unless the suspension of now has ended by then.
  void after(Nanos delay, void (Suspendable::*then)());

  LoopHost& host_;
  const metric::Counter stale_;
  Suspendable& owner_;
  std::shared_ptr<Anchor> anchor_;
  uint64_t ticket_ = 0;   // of the current suspension; anything older is stale
  uint64_t request_ = 0;  // the same of the request
};

}  // namespace llmd::route
