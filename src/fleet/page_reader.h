#pragma once

#include "base/result.h"
#include "fleet/endpoint.h"
#include "fleet/metrics_source.h"

#include <memory>
#include <string_view>

namespace llmd::fleet {

/// Reads the numbers of EndpointMetrics out of one engine's metrics page while the page arrives. Of
/// several series that match, the one with the newest explicit timestamp counts, else the first.
/// Threading: one thread. Reused for page after page.
class PageReader {
 public:
  explicit PageReader(const EngineMetrics& engine);
  ~PageReader();

  void begin();
  void feed(std::string_view chunk);
  /// After the last byte: the numbers found, or why there are none at all. Numbers that the page
  /// lacks keep the value they have in `metrics`.
  Status finish(EndpointMetrics& metrics);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::fleet
