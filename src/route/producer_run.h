#pragma once

#include "base/clock.h"
#include "metric/registry.h"
#include "schedule/pipeline.h"
#include "schedule/request_context.h"

#include <cstddef>
#include <span>
#include <string_view>

namespace llmd::route {

/// The producers of a try, one after the other. One that fails, or takes too long, is logged and
/// counted, and the decision does without its data. Threading: one loop.
class ProducerRun {
 public:
  /// `failed` counts what decisions did without.
  explicit ProducerRun(metric::Counter failed) : failed_(failed) {}

  /// Before the first of `producers`, which must stay until the run is over.
  void begin(std::span<const schedule::Step<schedule::Producer>> producers) {
    producers_ = producers;
    next_ = 0;
  }
  /// Calls one producer after the other, the one that waited first. Suspended: one waits, for
  /// deadline() at most.
  schedule::Progress go_on(schedule::RequestContext& c);
  Nanos deadline() const { return producers_[next_].plugin->deadline(); }
  /// Leaves out the one that waits.
  void skip(schedule::RequestContext& c, std::string_view why);

 private:
  std::span<const schedule::Step<schedule::Producer>> producers_;
  size_t next_ = 0;
  const metric::Counter failed_;
};

}  // namespace llmd::route
