#include "schedule/pipeline.h"
#include "schedule/stopwatch.h"

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
