#include "session_affinity.h"

#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

class SessionAffinityFilter final : public schedule::Filter, public SessionAffinity {
 public:
  static Result<std::unique_ptr<SessionAffinityFilter>> create(SessionParams p,
                                                               const plugin::Context& context) {
    return make_session_plugin<SessionAffinityFilter>(std::move(p), context);
  }
  SessionAffinityFilter(SessionParams p, std::shared_ptr<SessionTable> table)
      : SessionAffinity(std::move(p), std::move(table)) {}

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const auto mine = bound(context, selected);
    if (!mine) return selected.size();
    selected[0] = *mine;
    return 1;
  }
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
