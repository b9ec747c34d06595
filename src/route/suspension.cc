#include "suspension.h"

namespace llmd::route {

std::weak_ptr<Suspension::Anchor> Suspension::anchor() {
  if (!anchor_) anchor_ = std::make_shared<Anchor>(this);
  return anchor_;
}

schedule::Resume Suspension::resume() {
  return schedule::Resume(std::make_shared<std::function<void()>>(
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

void Suspension::wake_after(Nanos delay) {
  host_.after(delay, [weak = anchor(), ticket = ticket_] {
    const auto alive = weak.lock();
    if (alive && alive->suspension && alive->suspension->ticket_ == ticket)
      alive->suspension->owner_.on_deadline();
  });
}

}  // namespace llmd::route
