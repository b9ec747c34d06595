#include "schedule/outline.h"

#include "schedule/pipeline.h"

namespace llmd::schedule {
namespace {

std::vector<std::string> names(const auto& steps) {
  std::vector<std::string> out;
  out.reserve(steps.size());
  for (const auto& step : steps) out.push_back(step.plugin->name());
  return out;
}

}  // namespace

OutlinePtr outline_of(const Pipeline& pipeline) {
  auto outline = std::make_shared<Outline>();
  outline->handler = pipeline.handler.plugin->name();
  outline->producers = names(pipeline.producers);
  for (const auto& profile : pipeline.profiles) {
    auto& out = outline->profiles.emplace_back();
    out.name = profile.name;
    out.filters = names(profile.filters);
    for (const auto& scorer : profile.scorers)
      out.scorers.push_back({scorer.plugin->name(), scorer.weight});
    out.picker = profile.picker.plugin->name();
  }
  return outline;
}

}  // namespace llmd::schedule
