#include "route/retry.h"

#include "base/check.h"
#include "fleet/ejection.h"

#include <algorithm>

namespace llmd::route {

constexpr std::string_view kRoleLabel = "llm-d.ai/role";

std::string_view failure_name(UpstreamFailure failure) {
  constexpr std::array<std::string_view, kUpstreamFailures> kNames = {
      "connect", "stale", "unsent", "reset", "broken", "timeout", "protocol"};
  return kNames[static_cast<size_t>(failure)];
}

FailureAnswer describe(UpstreamFailure failure) {
  switch (failure) {
    case UpstreamFailure::kConnect:
      return {503, "cannot connect to the model server"};
    case UpstreamFailure::kStale:
    case UpstreamFailure::kUnsent:
    case UpstreamFailure::kReset:
      return {503, "the model server closed the connection before answering"};
    case UpstreamFailure::kBroken:
      return {503, "the model server broke off its answer"};
    case UpstreamFailure::kTimeout:
      return {504, "the model server did not answer in time"};
    case UpstreamFailure::kProtocol:
      break;
  }
  return {502, "the model server's answer is not valid HTTP"};
}

bool Attempts::another_after(UpstreamFailure failure, const fleet::Endpoint& endpoint,
                             const RetryOptions& options) {
  CHECK(options.endpoints_max <= RetryOptions::kEndpointsMost);
  ++tries_;
  last_ = failure;
  switch (failure) {
    case UpstreamFailure::kStale:
      return options.endpoints_max > 1 && !std::exchange(fresh_, true);
    case UpstreamFailure::kReset:
      if (!options.after_send) return false;
      break;
    case UpstreamFailure::kConnect:
    case UpstreamFailure::kUnsent:
      break;
    case UpstreamFailure::kBroken:
    case UpstreamFailure::kTimeout:
    case UpstreamFailure::kProtocol:
      return false;
  }
  if (failed_count_ + size_t{1} >= options.endpoints_max) return false;
  failed_[failed_count_++] = endpoint.generation();
  return true;
}

bool Attempts::excludes(const fleet::Endpoint& endpoint) const {
  const auto end = failed_.begin() + failed_count_;
  return std::find(failed_.begin(), end, endpoint.generation()) != end;
}

bool serves_clients(const fleet::Endpoint& endpoint) {
  const auto* role = endpoint.label(kRoleLabel);
  return !role || (*role != "prefill" && *role != "encode" && *role != "encode-prefill");
}

Choice::Choice(const fleet::Snapshot& pool, const Attempts& attempts, bool ejected_too,
               const Clock& clock)
    : attempts_(attempts) {
  const auto healthy = [](const auto& endpoint) { return endpoint->health.healthy(); };
  if (!attempts.any() && std::ranges::all_of(pool.endpoints, healthy)) return;
  all_ = false;
  now_ = clock.now();
  if (ejected_too) return;
  leaves_out_ejected_ =
      fleet::leaves_out_ejected(pool, now_) &&
      std::ranges::any_of(pool.endpoints, [&](const auto& endpoint) {
        return !fleet::is_ejected(*endpoint, now_) && !attempts.excludes(*endpoint);
      });
}

bool Choice::includes_now(const fleet::Endpoint& endpoint) const {
  if (attempts_.excludes(endpoint)) return false;
  return !leaves_out_ejected_ || !fleet::is_ejected(endpoint, now_);
}

}  // namespace llmd::route
