#include "stages.h"

#include "base/text.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

using schedule::Decider;
using schedule::RequestContext;

struct Profiles {
  std::string decode = "decode";
  std::string prefill = "prefill";
  std::string encode = "encode";
};
struct Deciders {
  std::string prefill;
  std::string encode;
};
struct Params {
  std::string stage_order = "decode-first";
  std::optional<Profiles> profiles;
  std::optional<Deciders> deciders;
  // The flat spelling of old.
  std::optional<std::string> decode_profile, prefill_profile, encode_profile;
  std::optional<std::string> prefill_decider, encode_decider, decider;
};

const plugin::Params<Profiles>& profiles_table() {
  static const plugin::Params<Profiles> params = {
      plugin::field("decode", &Profiles::decode, "", "Picks where the answer is generated."),
      plugin::field("prefill", &Profiles::prefill, "", "Picks where the prompt is processed."),
      plugin::field("encode", &Profiles::encode, "", "Picks where images are encoded."),
  };
  return params;
}

const plugin::Params<Deciders>& deciders_table() {
  static const plugin::Params<Deciders> params = {
      plugin::field("prefill", &Deciders::prefill, "",
                    "Decider whether prompts are processed apart; none: they are not, unless "
                    "stageOrder is prefill-first."),
      plugin::field("encode", &Deciders::encode, "",
                    "Decider whether images are encoded apart; none: they are not."),
  };
  return params;
}

/// Makes the flat spelling the nested one.
Status fold(Params& p) {
  if (!p.decode_profile && !p.prefill_profile && !p.encode_profile && !p.prefill_decider &&
      !p.encode_decider && !p.decider)
    return {};
  if (p.profiles || p.deciders)
    return fail(Code::kBadRequest,
                "parameters 'profiles' and 'deciders' do not go together with those that they "
                "replace");
  const Profiles names;
  p.profiles = {.decode = p.decode_profile.value_or(names.decode),
                .prefill = p.prefill_profile.value_or(names.prefill),
                .encode = p.encode_profile.value_or(names.encode)};
  p.deciders = {.prefill = p.prefill_decider.value_or(p.decider.value_or("")),
                .encode = p.encode_decider.value_or("")};
  p.decode_profile = p.prefill_profile = p.encode_profile = std::nullopt;
  p.prefill_decider = p.encode_decider = p.decider = std::nullopt;
  return {};
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params(
      {
          plugin::field(
              "stageOrder", &Params::stage_order, "",
              "Which profile runs first: decode-first or prefill-first. Case, '-' and '_' "
              "do not count."),
          plugin::object_field("profiles", &Params::profiles, profiles_table(),
                               "Names of the scheduling profiles."),
          plugin::object_field("deciders", &Params::deciders, deciders_table(),
                               "Names of the deciders."),
          plugin::field("decodeProfile", &Params::decode_profile, "", "profiles.decode.")
              .deprecated(),
          plugin::field("prefillProfile", &Params::prefill_profile, "", "profiles.prefill.")
              .deprecated(),
          plugin::field("encodeProfile", &Params::encode_profile, "", "profiles.encode.")
              .deprecated(),
          plugin::field("prefillDeciderPluginName", &Params::prefill_decider, "",
                        "deciders.prefill.")
              .deprecated(),
          plugin::field("encodeDeciderPluginName", &Params::encode_decider, "", "deciders.encode.")
              .deprecated(),
          plugin::field("deciderPluginName", &Params::decider, "",
                        "deciders.prefill where prefillDeciderPluginName is not given.")
              .deprecated(),
      },
      fold);
  return params;
}

/// Whether prefill comes first; nothing for an order that does not exist.
std::optional<bool> prefill_first(std::string_view order) {
  std::string word = to_lower(order);
  std::erase_if(word, [](char c) { return c == '-' || c == '_'; });
  if (word.empty() || word == "decode" || word == "decodefirst") return false;
  if (word == "prefill" || word == "prefillfirst") return true;
  return std::nullopt;
}

const metric::Definition kDecisions = {
    .name = "llm_d_epp_disagg_decision_total",
    .kind = metric::Kind::kCounter,
    .help = "Decisions by the stages that got an endpoint of their own.",
    .labels = {"plugin_name", "plugin_type", "model_name", "decision_type"},
    .buckets = {},
    .twins = {{.name = "llm_d_inference_scheduler_disagg_decision_total",
               .labels = {{"model_name", "model_name"}, {"decision_type", "decision_type"}}}}};

class DisaggProfileHandler final : public schedule::ProfileHandler, public schedule::PreRequest {
 public:
  static Result<std::unique_ptr<DisaggProfileHandler>> create(Params p,
                                                              const plugin::Context& context) {
    const auto order = prefill_first(p.stage_order);
    if (!order)
      return fail(Code::kBadRequest, "parameter 'stageOrder': '" + p.stage_order +
                                         "' is neither decode-first nor prefill-first");
    Deciders deciders = p.deciders.value_or(Deciders{});
    if (*order && !deciders.prefill.empty())
      return fail(Code::kBadRequest,
                  "parameter 'deciders.prefill' does not go together with stageOrder "
                  "prefill-first, which always runs the prefill profile");
    return std::make_unique<DisaggProfileHandler>(*order, p.profiles.value_or(Profiles{}),
                                                  std::move(deciders), context);
  }

  DisaggProfileHandler(bool prefill_first, Profiles profiles, Deciders deciders,
                       const plugin::Context& context)
      : prefill_first_(prefill_first),
        profiles_(std::move(profiles)),
        deciders_(std::move(deciders)),
        decisions_(context.state.get<DecisionCounter>(
            context.name, [&] { return new DecisionCounter(context.metrics, kDecisions); })) {}

  void wire(schedule::Wiring& wiring) override {
    peer_ = wiring.produces_value<schedule::Peer>(schedule::kPeerEndpoint);
    evaluated_ = wiring.request_slot<Evaluated>();
    if (!deciders_.prefill.empty())
      prefill_decider_ = wiring.refer<Decider>(deciders_.prefill, "deciders.prefill", "decider");
    if (!deciders_.encode.empty())
      encode_decider_ = wiring.refer<Decider>(deciders_.encode, "deciders.encode", "decider");
  }

  Status bind(std::span<const std::string> names) override {
    LLMD_TRY_ASSIGN(decode_, decode_profile(names, profiles_.decode));
    prefill_ = profile_index(names, profiles_.prefill);
    encode_ = profile_index(names, profiles_.encode);
    return {};
  }

  std::string_view prefill_profile() const override { return profiles_.prefill; }

  size_t next(RequestContext& context, std::span<uint16_t> run) const override {
    const uint16_t profile = prefill_first_ ? after_prefill(context) : after_decode(context);
    run[0] = profile;
    return profile == kNoProfile ? 0 : 1;
  }

  /// A prefill or encode profile that found nothing leaves its stage to the decoding endpoint.
  Status finish(RequestContext& context) const override { return decode_on(context, decode_); }

  Status pre_request(RequestContext& context) const override {
    set_stage_headers(context, prefill_, encode_);
    const bool prefill = succeeded(context, prefill_);
    const bool encode = succeeded(context, encode_);
    decisions_->count(*this, context.target_model,
                      encode ? (prefill ? "encode-prefill-decode" : "encode-decode")
                             : (prefill ? "prefill-decode" : "decode-only"));
    return {};
  }

 private:
  struct Evaluated {
    bool encode = false;
    bool prefill = false;
  };

  /// The next profile to run, decode first.
  uint16_t after_decode(RequestContext& context) const {
    if (!has_run(context, decode_)) return decode_;
    if (!succeeded(context, decode_)) return kNoProfile;
    const uint32_t target = context.results[decode_].targets[0];
    auto& evaluated = context.slot(evaluated_);
    if (!std::exchange(evaluated.encode, true) && wants_encode(context, target)) return encode_;
    if (std::exchange(evaluated.prefill, true) || prefill_ == kNoProfile || !prefill_decider_ ||
        !prefill_decider_->separates(context, target))
      return kNoProfile;
    context.set(peer_, {target});
    return prefill_;
  }

  /// The next profile to run, prefill first.
  uint16_t after_prefill(RequestContext& context) const {
    if (has_run(context, decode_)) return kNoProfile;
    if (prefill_ != kNoProfile && !has_run(context, prefill_)) return prefill_;
    auto& evaluated = context.slot(evaluated_);
    if (!std::exchange(evaluated.encode, true) && wants_encode(context, std::nullopt))
      return encode_;
    if (succeeded(context, prefill_)) context.set(peer_, {context.results[prefill_].targets[0]});
    return decode_;
  }

  bool wants_encode(const RequestContext& context, std::optional<uint32_t> decode) const {
    return encode_ != kNoProfile && encode_decider_ && encode_decider_->separates(context, decode);
  }

  const bool prefill_first_;
  const Profiles profiles_;
  const Deciders deciders_;
  const std::shared_ptr<DecisionCounter> decisions_;
  const Decider* prefill_decider_ = nullptr;
  const Decider* encode_decider_ = nullptr;
  schedule::ProducedValue<schedule::Peer> peer_;
  schedule::RequestSlot<Evaluated> evaluated_;
  uint16_t decode_ = kNoProfile;
  uint16_t prefill_ = kNoProfile;
  uint16_t encode_ = kNoProfile;
};

}  // namespace

const plugin::Descriptor& disagg_profile_handler() {
  static const auto descriptor = plugin::describe<DisaggProfileHandler>(
      {.type = "disagg-profile-handler",
       .kind = "profile handler",
       .summary =
           "Picks an endpoint to decode, and others to process the prompt and to encode "
           "images where the deciders say so; the decoding server learns of them by header."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
