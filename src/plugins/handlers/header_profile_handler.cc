#include "stages.h"

#include "base/text.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

struct Params {
  std::string header = "epp-profile";
  std::string default_profile = "decode";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("headerName", &Params::header, "", "Request header that names the profile."),
      plugin::field("defaultProfile", &Params::default_profile, "",
                    "Profile of requests without the header."),
  };
  return params;
}

class HeaderProfileHandler final : public schedule::ProfileHandler {
 public:
  HeaderProfileHandler(Params p, const plugin::Context&)
      : header_(to_lower(trim(p.header))), default_(trim(p.default_profile)) {}

  Status bind(std::span<const std::string> names) override {
    names_.assign(names.begin(), names.end());
    return {};
  }

  /// One profile, known before it runs; a name that does not exist runs none.
  size_t next(schedule::RequestContext& context, std::span<uint16_t> run) const override {
    const uint16_t profile = wanted(context);
    if (profile == kNoProfile || has_run(context, profile)) return 0;
    run[0] = profile;
    return 1;
  }

  Status finish(schedule::RequestContext& context) const override {
    const uint16_t profile = wanted(context);
    if (!succeeded(context, profile))
      return fail(Code::kUnknown, "the scheduling profile found no endpoint");
    context.primary = profile;
    return {};
  }

 private:
  uint16_t wanted(const schedule::RequestContext& context) const {
    if (names_.size() == 1) return 0;
    const auto named = trim(context.headers.get(header_));
    return profile_index(names_, named.empty() ? std::string_view(default_) : named);
  }

  const std::string header_;
  const std::string default_;
  std::vector<std::string> names_;
};

}  // namespace

const plugin::Descriptor& header_profile_handler() {
  static const auto descriptor = plugin::describe<HeaderProfileHandler>(
      {.type = "header-profile-handler",
       .kind = "profile handler",
       .summary = "Runs the profile that a request header names.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
