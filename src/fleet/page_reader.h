#pragma once

#include "base/result.h"
#include "fleet/endpoint.h"
#include "fleet/metrics_source.h"

#include <memory>
#include <span>
#include <string_view>

namespace llmd::fleet {

/// Reads EndpointMetrics and EngineDetails out of one engine's metrics page while the page arrives.
/// Of several series that match, the one with the newest explicit timestamp counts, else the first.
/// Threading: one thread. Reused for page after page.
class PageReader {
 public:
  explicit PageReader(const EngineMetrics& engine);
  /// Reads only `attributes`, of the endpoint `own_name`. finish() fails when the page has none.
  PageReader(std::span<const AttributeSeries> attributes, std::string_view own_name);
  PageReader(PageReader&&) noexcept;
  ~PageReader();

  void begin();
  void feed(std::string_view chunk);
  /// After the last byte: what was found, or why there is nothing at all. What the page lacks keeps
  /// its value in `metrics` and `details`; custom numbers that were never seen are not listed.
  Status finish(EndpointMetrics& metrics, EngineDetails& details);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::fleet
