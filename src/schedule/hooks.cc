#include "schedule/pipeline.h"
#include "schedule/stopwatch.h"

#include <algorithm>
#include <optional>

namespace llmd::schedule {

Status begin_try(RequestContext& context, const Pipeline& pipeline) {
  prepare(context, pipeline);
  Stopwatch stopwatch;
  for (const auto& step : pipeline.request) {
    LLMD_TRY(step.plugin->on_request(context));
    step.duration.observe(stopwatch.lap());
  }
  return {};
}

Status run_screeners(RequestContext& context, const Pipeline& pipeline) {
  if (pipeline.screeners.empty()) return {};
  auto& candidates = context.candidates;
  const auto keep = context.arena.array<bool>(candidates.size());
  const auto one = context.arena.array<bool>(candidates.size());
  std::ranges::fill(keep, true);
  for (const auto& step : pipeline.screeners) {
    std::ranges::fill(one, true);
    LLMD_TRY(step.plugin->screen(context, candidates, one));
    for (size_t i = 0; i < keep.size(); ++i) keep[i] = keep[i] && one[i];
  }
  size_t kept = 0;
  for (size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) candidates[kept++] = candidates[i];
  candidates = candidates.first(kept);
  if (kept > 0) return {};
  return fail(Error{Code::kServiceUnavailable, "screeners eliminated all endpoint candidates",
                    "rejected-no-endpoints"});
}

Status run_admitters(RequestContext& context, const Pipeline& pipeline) {
  for (const auto& step : pipeline.admitters)
    if (auto admitted = step.plugin->admit(context); !admitted)
      return fail(std::move(admitted).error().in("request cannot be admitted"));
  return {};
}

Status run_pre_request(RequestContext& context, const Pipeline& pipeline) {
  std::optional<Error> failure;
  Stopwatch stopwatch;
  for (const auto& step : pipeline.pre_request) {
    if (auto ok = step.plugin->pre_request(context); !ok) {
      if (failure)
        failure = Error{Code::kInternal, failure->message + '\n' + ok.error().message, {}};
      else
        failure = std::move(ok).error();
    }
    step.duration.observe(stopwatch.lap());
  }
  if (failure) return fail(std::move(*failure));
  return {};
}

}  // namespace llmd::schedule
