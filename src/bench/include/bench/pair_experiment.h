#pragma once

#include "base/result.h"
#include "bench/blocking_client.h"
#include "bench/context_pairs.h"
#include "bench/report.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::bench {

/// The servers of one policy's turn.
struct PairSetting {
  Target router;
  std::vector<Target>
      engines;  // behind the router; their metrics pages are read around every request
  std::string model;
  double time_scale = 1;  // model seconds in one second here
  std::string id_prefix;  // of the X-Request-Id values
};

/// Asks both questions of every pair, one request at a time, and measures the second ones. Engine
/// counters are read before a second request and after each request has been counted by an engine.
/// `on_pair` hears every pair's figures as they come.
Result<std::vector<SecondRequest>> run_pairs(
    BlockingClient& client, const PairSetting& setting, std::span<const ContextPair> pairs,
    int round, const std::function<void(const SecondRequest&)>& on_pair = {});

/// Empties the prefix caches of the engines.
Status reset_prefix_caches(BlockingClient& client, std::span<const Target> engines);

}  // namespace llmd::bench
