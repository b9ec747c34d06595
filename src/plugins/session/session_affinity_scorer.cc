#include "session_affinity.h"

#include "schedule/interfaces.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

class SessionAffinityScorer final : public schedule::Scorer,
                                    public schedule::PreRequest,
                                    public schedule::ResponseHook {
 public:
  static Result<std::unique_ptr<SessionAffinityScorer>> create(SessionParams p,
                                                               const plugin::Context& context) {
    LLMD_TRY_ASSIGN(auto affinity, SessionAffinity::create(std::move(p), context));
    return std::make_unique<SessionAffinityScorer>(std::move(affinity));
  }

  explicit SessionAffinityScorer(SessionAffinity affinity) : affinity_(std::move(affinity)) {}

  void wire(schedule::Wiring& wiring) override { affinity_.wire(wiring); }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto bound = affinity_.bound(context, selected);
    if (bound)
      scores[static_cast<size_t>(std::ranges::find(selected, *bound) - selected.begin())] = 1;
  }

  Status pre_request(schedule::RequestContext& context) const override {
    affinity_.pre_request(context);
    return {};
  }

  void on_response_head(schedule::RequestContext& context) const override {
    affinity_.on_response_head(context);
  }

 private:
  SessionAffinity affinity_;
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
