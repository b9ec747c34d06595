#include "session_affinity.h"

#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

class SessionAffinityFilter final : public schedule::Filter,
                                    public schedule::PreRequest,
                                    public schedule::ResponseHook {
 public:
  static Result<std::unique_ptr<SessionAffinityFilter>> create(SessionParams p,
                                                               const plugin::Context& context) {
    LLMD_TRY_ASSIGN(auto affinity, SessionAffinity::create(std::move(p), context));
    return std::make_unique<SessionAffinityFilter>(std::move(affinity));
  }

  explicit SessionAffinityFilter(SessionAffinity affinity) : affinity_(std::move(affinity)) {}

  void wire(schedule::Wiring& wiring) override { affinity_.wire(wiring); }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const auto bound = affinity_.bound(context, selected);
    if (!bound) return selected.size();
    selected[0] = *bound;
    return 1;
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

plugin::Descriptor described_as(std::string_view type) {
  return plugin::describe<SessionAffinityFilter>(
      {.type = type,
       .kind = "filter",
       .summary = "Keeps only the endpoint that the session's last request went to, while it is "
                  "there.",
       .stability = plugin::Stability::kAlpha},
      session_params());
}

}  // namespace

const plugin::Descriptor& session_affinity_filter() {
  static const auto descriptor = described_as("session-affinity-filter");
  return descriptor;
}

const plugin::Descriptor& multicluster_session_affinity_filter() {
  static const auto descriptor = described_as("multicluster-session-affinity-filter");
  return descriptor;
}

}  // namespace llmd::plugins
