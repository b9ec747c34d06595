#include "suspension.h"

namespace llmd::route {

std::weak_ptr<Suspension::Anchor> Suspension::anchor() {
  if (!anchor_) anchor_ = std::make_shared<Anchor>(this);
  return anchor_;
}

schedule::Signal Suspension::resume() {
  return schedule::Signal(std::make_shared<std::function<void()>>(
      [&executor = host_.executor, weak = anchor(), ticket = ++ticket_, stale = stale_] {
        executor.post([weak, ticket, stale] {
          const auto alive = weak.lock();
          if (alive && alive->suspension && alive->suspension->ticket_ == ticket)
            alive->suspension->owner_.on_resume();
          else
            stale.add();
        });
      }));
}

schedule::Signal Suspension::eviction() {
  return schedule::Signal(std::make_shared<std::function<void()>>(
      [&executor = host_.executor, weak = anchor(), request = request_] {
        executor.post([weak, request] {
          const auto alive = weak.lock();
          if (alive && alive->suspension && alive->suspension->request_ == request)
            alive->suspension->owner_.on_evict();
        });
      }));
}

void Suspension::resume_after(Nanos delay) {
  ++ticket_;
  after(delay, &Suspendable::on_resume);
}

void Suspension::wake_after(Nanos delay) {
  after(delay, &Suspendable::on_deadline);
}

void Suspension::after(Nanos delay, void (Suspendable::*then)()) {
  host_.after(delay, [weak = anchor(), ticket = ticket_, then] {
    const auto alive = weak.lock();
    if (alive && alive->suspension && alive->suspension->ticket_ == ticket)
      (alive->suspension->owner_.*then)();
  });
}

}  // namespace llmd::route
