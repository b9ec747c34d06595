#pragma once

#include "metric/registry.h"
#include "plugin/plugin.h"
#include "schedule/request_context.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What profile handlers of several stages share.
namespace llmd::plugins {

inline constexpr uint16_t kNoProfile = UINT16_MAX;

/// The index of `name`, or kNoProfile.
inline uint16_t profile_index(std::span<const std::string> names, std::string_view name) {
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? kNoProfile : static_cast<uint16_t>(at - names.begin());
}

/// The index of the profile that decodes; an error when there is none.
Result<uint16_t> decode_profile(std::span<const std::string> names, std::string_view name);

/// Whether the profile exists, ran, and found a target.
inline bool succeeded(const schedule::RequestContext& context, uint16_t profile) {
  return profile < context.results.size() && !context.results[profile].targets.empty();
}

inline bool has_run(const schedule::RequestContext& context, uint16_t profile) {
  return profile < context.results.size() && context.results[profile].ran;
}

inline const fleet::Endpoint& first_target(const schedule::RequestContext& context,
                                           uint16_t profile) {
  return *context.candidates[context.results[profile].targets[0]].endpoint;
}

/// Ends a decision: the request goes to the first target of `decode`, which must have one.
inline Status decode_on(schedule::RequestContext& context, uint16_t decode) {
  if (!succeeded(context, decode))
    return fail(Code::kUnknown, "failed to find available decode workers");
  context.primary = decode;
  return {};
}

/// Tells the decoding server where to have the prompt processed and images encoded: the first
/// target of `prefill` and all those of `encode`, where these found any. What clients send under
/// these names never gets this far.
void set_stage_headers(schedule::RequestContext& context, uint16_t prefill, uint16_t encode);

/// Sends the request to `port` of the chosen address, and the chosen endpoint's own port along, so
/// that a server that stands before several ranks hands it on.
void send_through_port(schedule::RequestContext& context, uint16_t profile, uint16_t port);

/// Counts the decisions of a profile handler by model and stages. Outlives configurations.
/// Threading: any.
class DecisionCounter {
 public:
  /// Requires: `definition` has the labels plugin_name, plugin_type, model_name, decision_type.
  DecisionCounter(metric::Registry& registry, const metric::Definition& definition)
      : family_(registry.family(definition)), models_(kModelsMax) {}

  void count(const plugin::Plugin& handler, std::string_view model, std::string_view decision);

 private:
  static constexpr size_t kModelsMax = 1000;  // clients choose names

  metric::Family& family_;
  metric::LabelGuard models_;
};

}  // namespace llmd::plugins
