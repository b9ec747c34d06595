#pragma once

#include "fleet/metrics_source.h"
#include "metric/registry.h"
#include "request/parser.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/outline.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace llmd::schedule {

/// A plugin in a role, with the histogram that times it there (plugin_duration_seconds).
template <class T>
struct Step {
  const T* plugin = nullptr;
  metric::Histogram duration;
};

struct WeightedScorer : Step<Scorer> {
  double weight = 1.0;
};

struct Profile {
  std::string name;
  std::vector<Step<Filter>> filters;
  std::vector<WeightedScorer> scorers;
  Step<Picker> picker;
};

/// What `llmd check` and /debug show of one plugin instance.
struct ResolvedPlugin {
  std::string name;
  std::string type;
  std::string origin;      // "configured", "default", "auto-created for 'x'"
  std::string parameters;  // effective values as a JSON object
  const plugin::Plugin* plugin = nullptr;
};

/// The configured graph, ready to run. Immutable: a reload builds a new one and swaps the pointer,
/// requests stay with the one they started under. Everything that changes lives elsewhere
/// (plugin::StateStore). Lifetime: owned by the requests that use it and by the director.
/// Threading: read-only, any thread.
struct Pipeline {
  std::vector<std::unique_ptr<plugin::Plugin>>
      plugins;  // declaration order, auto-created ones last
  std::vector<ResolvedPlugin> resolved;
  std::vector<Profile> profiles;
  Step<ProfileHandler> handler;

  request::ParserTable parsers;
  std::vector<Step<RequestHook>> request;
  std::vector<Step<Screener>> screeners;
  std::vector<Step<Producer>> producers;  // in dependency order
  std::vector<Step<Admitter>> admitters;
  std::vector<Step<PreRequest>> pre_request;
  std::vector<Step<ResponseHook>> response;
  std::vector<Step<Reporter>> reporters;
  const SaturationDetector* detector = nullptr;
  std::vector<fleet::Feed> feeds;  // what is scraped
  std::unique_ptr<Admission> admission;
  Consumed<PrefixMatch> cached;  // where prompts are cached; no column: nobody knows

  std::vector<std::pair<std::string, bool>> gates;  // feature gates with their effective value
  std::vector<std::string> warnings;                // of the load, for check and the log
  OutlinePtr outline;                               // made when the rest is complete
  /// The feed of the endpoints' load; null: it is not scraped.
  const fleet::Feed* load_feed() const {
    for (const auto& feed : feeds)
      if (feed.extractor->reads_load()) return &feed;
    return nullptr;
  }

  size_t columns = 0;
  size_t slots = 0;
  std::vector<std::shared_ptr<void>>
      subscriptions;  // membership listeners, released with the pipeline
};

using PipelinePtr = std::shared_ptr<const Pipeline>;

/// Allocates the columns, slots and results that `pipeline` needs in the context's arena, and room
/// in its notes where some are taken. Call once per try, before candidates are set.
void prepare(RequestContext& context, const Pipeline& pipeline);

/// Runs the profile handler's rounds: filters, scorers, picker of every profile (spec 02
/// §2.2, 2.3). On success context.results and context.primary are set. Errors carry code and drop
/// reason.
Status run_scheduler(RequestContext& context, const Pipeline& pipeline);

/// prepare(), then the request hooks; the first failure ends them.
Status begin_try(RequestContext& context, const Pipeline& pipeline);
/// Keeps the candidates that every screener keeps. Errors are a screener's, or say that none is
/// left.
Status run_screeners(RequestContext& context, const Pipeline& pipeline);
/// The first admitter that refuses ends them.
Status run_admitters(RequestContext& context, const Pipeline& pipeline);
/// The hooks before a request goes to its endpoint. All run: one failure keeps its code, several
/// become Internal with their texts joined.
Status run_pre_request(RequestContext& context, const Pipeline& pipeline);

}  // namespace llmd::schedule
