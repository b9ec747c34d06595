#include "producer_run.h"

#include "request_log.h"

#include "schedule/decision_notes.h"

namespace llmd::route {

using schedule::Progress;

Progress ProducerRun::go_on(schedule::RequestContext& c) {
  while (next_ < producers_.size()) {
    const auto& [producer, duration] = producers_[next_];
    const trace::Stage stage(c.trace, "llm_d.epp.producer.", producer->type(),
                             trace::Scope::kPlugins);
    const TimePoint begin = c.clock.now();
    const auto progress = producer->produce(c);
    if (!progress) {
      skip(c, progress.error().message);
      continue;
    }
    if (*progress == Progress::kSuspended) return Progress::kSuspended;
    const double taken = seconds(c.clock.now() - begin);
    duration.observe(taken);
    if (c.notes) c.notes->producers[next_] = static_cast<float>(taken);
    ++next_;
  }
  return Progress::kDone;
}

void ProducerRun::skip(schedule::RequestContext& c, std::string_view why) {
  failed_.add();
  log_degraded(c, producers_[next_].plugin->name(), why);
  if (c.notes) c.notes->producers[next_] = schedule::DecisionNotes::kFailed;
  ++next_;
}

}  // namespace llmd::route
