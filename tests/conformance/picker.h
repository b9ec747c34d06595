#pragma once

#include "score_case.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "config/loader.h"
#include "fleet/fleet.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace llmd::conformance {

/// Decides the requests of one case in process: the loaded configuration, its parsers, producers,
/// scheduler and hooks, without a front end. Metrics pages are read once, as after a scrape.
class Picker {
 public:
  explicit Picker(const Case& of);
  ~Picker();

  /// What this build lacks to run the case, for example "lora-affinity-scorer"; "" for nothing.
  const std::string& missing() const { return missing_; }

  struct Answer {
    std::string error;  // "" when it was scheduled
    std::string picked;
    std::map<std::string, double> scores;
  };
  Answer run(const Step& step);

 private:
  struct Request;

  std::string find_missing(const Case& of) const;
  Status set_fleet(const Case& of);
  Status read_page(fleet::Endpoint& endpoint, const std::string& page);
  Status decide(Request& request, const Step& step);
  void finish(Request& request);
  Answer answer(const Request& request) const;

  plugin::Registry registry_;
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Rng rng_{1};
  fleet::Fleet fleet_;
  schedule::PipelinePtr pipeline_;
  std::map<std::string, std::unique_ptr<Request>> open_;
  std::string missing_;
};

}  // namespace llmd::conformance
