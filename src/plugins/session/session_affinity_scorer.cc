#include "session_affinity.h"

#include "schedule/interfaces.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

class SessionAffinityScorer final : public schedule::Scorer, public SessionAffinity {
 public:
  static Result<std::unique_ptr<SessionAffinityScorer>> create(SessionParams p,
                                                               const plugin::Context& context) {
    return make_session_plugin<SessionAffinityScorer>(std::move(p), context);
  }
  SessionAffinityScorer(SessionParams p, std::shared_ptr<SessionTable> table)
      : SessionAffinity(std::move(p), std::move(table)) {}

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto mine = bound(context, selected);
    if (mine)
      scores[static_cast<size_t>(std::ranges::find(selected, *mine) - selected.begin())] = 1;
  }
};

}  // namespace

const plugin::Descriptor& session_affinity_scorer() {
  static const auto descriptor = plugin::describe<SessionAffinityScorer>(
      {.type = "session-affinity-scorer",
       .kind = "scorer",
       .summary = "Prefers the endpoint that the session's last request went to: 1 for it, 0 for "
                  "others.",
       .stability = plugin::Stability::kAlpha},
      session_params());
  return descriptor;
}

}  // namespace llmd::plugins
