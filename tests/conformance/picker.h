#pragma once

#include "score_case.h"

#include "base/clock.h"
#include "base/rng.h"
#include "config/loader.h"
#include "fleet/fleet.h"
#include "kv_events/event_sink.h"
#include "route/director.h"
#include "route/testing.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmd::kv_precise {
class PreciseCache;
}  // namespace llmd::kv_precise

namespace llmd::conformance {

/// Runs the requests of one case in process: the loaded configuration under the director, sessions
/// from head to end of the answer, without a front end. Metrics pages are read once, as after a
/// scrape; time passes by the steps.
class Picker {
 public:
  explicit Picker(const Case& of, request::ObjectsPtr objects = nullptr);
  ~Picker();

  /// What the step's request was told; nothing in it for steps that are none.
  Answer run(const Step& step);
  /// The same for requests that arrive at once (step "together"), in their order; neighbours that
  /// are alike in the order of where they went, since which of them came first is chance.
  std::vector<Answer> run_together(const Step& step);

  /// The metrics page.
  std::string metrics() { return metrics_.render(); }
  /// Makes the first `count` endpoints of the case the membership.
  void set_fleet(const Case& of, size_t count);

 private:
  class Client;

  Status read_page(fleet::Endpoint& endpoint, const std::string& page);
  std::unique_ptr<Client> start(const Step& step);
  /// Lets time pass until nothing waits.
  void settle();
  /// What the configured precise prefix cache hears of an engine.
  void hear(const Step& step);

  plugin::Registry registry_;
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Rng rng_{1};
  route::testing::StepExecutor executor_;
  fleet::Fleet fleet_;
  schedule::PipelinePtr pipeline_;
  route::Director director_;
  std::multimap<TimePoint, std::move_only_function<void()>> timers_;
  std::optional<route::LoopDirector> loop_;
  std::map<std::string, std::unique_ptr<Client>> open_;
  size_t requests_ = 0;
  std::shared_ptr<kv_precise::PreciseCache> precise_;
  std::map<std::string, kv_events::Publisher> engines_;  // by topic; that the cache knows
};

}  // namespace llmd::conformance
