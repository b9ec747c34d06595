#include "stages.h"

#include "plugin/ignored_param.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

using schedule::Decider;
using schedule::RequestContext;

struct Params {
  std::string decode = "decode";
  std::string prefill = "prefill";
  std::string decider = "prefix-based-pd-decider";
  uint16_t primary_port = 0;
  std::string producer = "approx-prefix-cache-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("decodeProfile", &Params::decode, "", "Picks where the answer is generated."),
      plugin::field("prefillProfile", &Params::prefill, "", "Picks where the prompt is processed."),
      plugin::field("deciderPluginName", &Params::decider, "",
                    "Decider whether prompts are processed apart."),
      plugin::field("primaryPort", &Params::primary_port, "",
                    "Port that requests go to instead of the endpoint's own, which stands in the "
                    "header x-data-parallel-host-port; 0: its own."),
      plugin::ignored<Params, std::string>("prefixPluginType"),
      plugin::ignored<Params, std::string>("prefixPluginName"),
      plugin::field("prefixMatchInfoProducerName", &Params::producer, "",
                    "Producer of prefix matches that must exist."),
  };
  return params;
}

const metric::Definition kDecisions = {
    .name = "llm_d_epp_pd_decision_total",
    .kind = metric::Kind::kCounter,
    .help = "Decisions by whether the prompt is processed on an endpoint of its own.",
    .labels = {"plugin_name", "plugin_type", "model_name", "decision_type"},
    .buckets = {},
    .twins = {{.name = "llm_d_inference_scheduler_pd_decision_total",
               .labels = {{"model_name", "model_name"}, {"decision_type", "decision_type"}}}}};

class PdProfileHandler final : public schedule::ProfileHandler, public schedule::PreRequest {
 public:
  PdProfileHandler(Params p, const plugin::Context& context)
      : params_(std::move(p)), decisions_(context.state.get<DecisionCounter>(context.name, [&] {
          return new DecisionCounter(context.metrics, kDecisions);
        })) {}

  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::PrefixMatch>(params_.producer, schedule::Need::kRequired);
    decider_ = wiring.refer<Decider>(params_.decider, "deciderPluginName", "decider");
    asked_ = wiring.request_slot<bool>();
  }

  Status bind(std::span<const std::string> names) override {
    LLMD_TRY_ASSIGN(decode_, decode_profile(names, params_.decode));
    prefill_ = profile_index(names, params_.prefill);
    return {};
  }

  std::string_view prefill_profile() const override { return params_.prefill; }

  size_t next(RequestContext& context, std::span<uint16_t> run) const override {
    if (!has_run(context, decode_)) {
      run[0] = decode_;
      return 1;
    }
    if (!succeeded(context, decode_) || std::exchange(context.slot(asked_), true) ||
        prefill_ == kNoProfile ||
        !decider_->separates(context, context.results[decode_].targets[0]))
      return 0;
    run[0] = prefill_;
    return 1;
  }

  Status finish(RequestContext& context) const override { return decode_on(context, decode_); }

  Status pre_request(RequestContext& context) const override {
    if (params_.primary_port != 0) send_through_port(context, decode_, params_.primary_port);
    decisions_->count(*this, context.target_model,
                      succeeded(context, prefill_) ? "prefill-decode" : "decode-only");
    return {};
  }

 private:
  const Params params_;
  const std::shared_ptr<DecisionCounter> decisions_;
  const Decider* decider_ = nullptr;
  schedule::RequestSlot<bool> asked_;
  uint16_t decode_ = kNoProfile;
  uint16_t prefill_ = kNoProfile;
};

}  // namespace

const plugin::Descriptor& pd_profile_handler() {
  static const auto descriptor = plugin::describe<PdProfileHandler>(
      {.type = "pd-profile-handler",
       .kind = "profile handler",
       .summary = "Picks an endpoint to decode and, where its decider says so, another to process "
                  "the prompt.",
       .replaced_by = "disagg-profile-handler"},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
