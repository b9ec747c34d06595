#include "stages.h"

#include "base/text.h"

#include <array>
#include <vector>

namespace llmd::plugins {
namespace {

/// The targets of `profile` as a comma-separated list in the request's arena.
std::string_view targets_of(schedule::RequestContext& context, uint16_t profile) {
  const auto targets = context.results[profile].targets;
  const auto host_port = [&](size_t i) -> const std::string& {
    return context.candidates[targets[i]].endpoint->host_port();
  };
  size_t bytes = targets.size() - 1;
  for (size_t i = 0; i < targets.size(); ++i) bytes += host_port(i).size();
  auto list = context.arena.array<char>(bytes);
  auto at = list.begin();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (i > 0) *at++ = ',';
    at = std::ranges::copy(host_port(i), at).out;
  }
  return {list.data(), list.size()};
}

}  // namespace

Result<uint16_t> decode_profile(std::span<const std::string> names, std::string_view name) {
  const uint16_t index = profile_index(names, name);
  if (index != kNoProfile) return index;
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fail(Code::kBadRequest, "there is no profile '" + std::string(name) + "' to decode with" +
                                     suggestion(name, known));
}

void set_stage_headers(schedule::RequestContext& context, uint16_t prefill, uint16_t encode) {
  auto& headers = context.request_headers;
  if (succeeded(context, prefill))
    headers.set("x-prefiller-host-port", first_target(context, prefill).host_port());
  if (succeeded(context, encode)) headers.set("x-encoder-hosts-ports", targets_of(context, encode));
}

void send_through_port(schedule::RequestContext& context, uint16_t profile, uint16_t port) {
  context.forward_port = port;
  context.request_headers.set("x-data-parallel-host-port",
                              first_target(context, profile).host_port());
}

void DecisionCounter::count(const plugin::Plugin& handler, std::string_view model,
                            std::string_view decision) {
  const std::array<std::string_view, 4> labels = {
      handler.name(), handler.type(), models_.admit(model.empty() ? "unknown" : model), decision};
  family_.counter(labels).add();
}

}  // namespace llmd::plugins
