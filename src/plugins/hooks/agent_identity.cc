#include "base/text.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

constexpr std::string_view kHeaders[] = {"x-claude-code-session-id", "x-session-affinity",
                                         "session-id", "session_id"};

struct Params {
  std::vector<std::string> more;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("additionalSessionHeaders", &Params::more, "",
                    "Headers to look at before x-claude-code-session-id, x-session-affinity, "
                    "session-id and session_id."),
  };
  return params;
}

class AgentIdentity final : public schedule::RequestHook {
 public:
  AgentIdentity(Params p, const plugin::Context&) {
    for (const auto& name : p.more) headers_.push_back(to_lower(trim(name)));
    headers_.insert(headers_.end(), std::begin(kHeaders), std::end(kHeaders));
  }

  void wire(schedule::Wiring& wiring) override {
    identity_ = wiring.produces_value<schedule::Text>(schedule::kAgentIdentity);
  }

  Status on_request(schedule::RequestContext& context) const override {
    for (const auto& name : headers_)
      if (const auto id = trim(context.headers.get(name)); !id.empty()) {
        context.set(identity_, {id});
        if (context.fairness_id == schedule::kDefaultFairnessId) context.fairness_id = id;
        return {};
      }
    return {};
  }

 private:
  std::vector<std::string> headers_;  // in the order in which they count
  schedule::ProducedValue<schedule::Text> identity_;
};

}  // namespace

const plugin::Descriptor& agent_identity() {
  static const auto descriptor = plugin::describe<AgentIdentity>(
      {.type = "agent-identity",
       .kind = "request hook",
       .summary = "Tells agents apart by the session headers that they send; the fairness id of "
                  "requests that have none.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
