#include "handlers/stages.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

struct Params {
  std::string prefill = "prefill";
  std::string encode = "encode";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("prefillProfile", &Params::prefill, "",
                    "Profile whose pick becomes x-prefiller-host-port."),
      plugin::field("encodeProfile", &Params::encode, "",
                    "Profile whose picks become x-encoder-hosts-ports."),
  };
  return params;
}

class DisaggHeadersHandler final : public schedule::PreRequest {
 public:
  DisaggHeadersHandler(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    prefill_ = wiring.profile(params_.prefill);
    encode_ = wiring.profile(params_.encode);
  }

  Status pre_request(schedule::RequestContext& context) const override {
    set_stage_headers(context, prefill_, encode_);
    return {};
  }

 private:
  const Params params_;
  uint16_t prefill_ = kNoProfile;
  uint16_t encode_ = kNoProfile;
};

plugin::Descriptor described_as(std::string_view type) {
  return plugin::describe<DisaggHeadersHandler>(
      {.type = type,
       .kind = "pre-request hook",
       .summary = "Tells the decoding server by header which endpoints were picked to process the "
                  "prompt and to encode images.",
       .replaced_by = "disagg-profile-handler, which does the same"},
      table());
}

}  // namespace

const plugin::Descriptor& disagg_headers_handler() {
  static const auto descriptor = described_as("disagg-headers-handler");
  return descriptor;
}

const plugin::Descriptor& prefill_header_handler() {
  static const auto descriptor = described_as("prefill-header-handler");
  return descriptor;
}

}  // namespace llmd::plugins
