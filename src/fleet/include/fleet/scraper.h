#pragma once

#include "base/clock.h"
#include "fleet/fleet.h"
#include "fleet/metrics_source.h"
#include "fleet/upstream_tls.h"
#include "io/loop.h"
#include "metric/registry.h"

#include <memory>
#include <string>
#include <vector>

namespace llmd::fleet {

struct ScrapeOptions {
  Nanos interval = std::chrono::milliseconds(50);
  Nanos idle_interval{0};  // of endpoints with nothing in flight; 0: as often as the others
  Nanos timeout = std::chrono::seconds(1);
  size_t page_bytes_max = 8u << 20;
  /// For pages that are fetched over https. Those of plain endpoints (a source with the scheme
  /// https) are not verified, with a warning, unless the source or an operator says whom to trust.
  UpstreamTls upstream;
};

/// Reads the pages of every endpoint, each on its own timer, over a kept connection. The
/// first reading of an endpoint comes at a random point of its first interval, so that a thousand
/// endpoints are never asked in one burst; the points are coarse, so that a few are asked in one
/// turn. A dead endpoint costs nothing but its own timer.
/// Threading: the control loop's thread; construct and destroy there too, or while the loop does
/// not run.
class Scraper {
 public:
  Scraper(io::Loop& loop, Fleet& fleet, metric::Registry& metrics, ScrapeOptions options);
  ~Scraper();

  /// What to fetch and how to read it; none stops the scraping. The plugins are kept alive by
  /// `owner` (the pipeline).
  void configure(const std::vector<Feed>& feeds, std::shared_ptr<const void> owner);

  /// The value of Authorization that readings of the load from now on send; "": none. It is the
  /// key of the model servers: other pages are asked without.
  void authorize(std::string authorization);

  /// Endpoints whose load has been read at least once since they joined.
  size_t seen() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::fleet
