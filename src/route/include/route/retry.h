#pragma once

#include "base/clock.h"
#include "fleet/endpoint.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmd::route {

/// How an endpoint failed a request. After the first three it has not seen the whole request, so
/// another try cannot run it twice.
enum class UpstreamFailure : uint8_t {
  kConnect,   // no connection
  kStale,     // a kept connection had been closed before: no fault of the endpoint
  kUnsent,    // broke off while the request was being sent
  kReset,     // broke off after that, before any byte of the answer
  kBroken,    // broke off within the answer
  kTimeout,   // no answer, or no more of it, in time
  kProtocol,  // the answer is not valid HTTP
};
inline constexpr size_t kUpstreamFailures = 7;
std::string_view failure_name(UpstreamFailure failure);
/// What the client of a request that failed so is told.
struct FailureAnswer {
  int status;
  std::string_view text;
};
FailureAnswer describe(UpstreamFailure failure);

/// When a request is sent to another endpoint.
struct RetryOptions {
  static constexpr size_t kEndpointsMost = 8;
  size_t endpoints_max = 3;  // tried per request, at most kEndpointsMost; 1: no retries
  /// Also after kReset. The endpoint may have died of the request, which then kills the next one.
  bool after_send = false;
};

/// The tries of one request so far. Reused from request to request.
class Attempts {
 public:
  void reset() {
    failed_count_ = tries_ = 0;
    fresh_ = false;
  }
  /// True after the first failure.
  bool any() const { return tries_ > 0; }
  size_t tries() const { return tries_; }
  UpstreamFailure last_failure() const { return last_; }

  /// Notes the failure of a try. True when another one may follow.
  bool another_after(UpstreamFailure failure, const fleet::Endpoint& endpoint,
                     const RetryOptions& options);
  /// Whether `endpoint` has failed this request.
  bool excludes(const fleet::Endpoint& endpoint) const;
  /// One kept connection was stale, so others may be.
  bool wants_fresh_connection() const { return fresh_; }

 private:
  std::array<uint64_t, RetryOptions::kEndpointsMost>
      failed_{};  // generations, failed_count_ of them
  uint8_t failed_count_ = 0;
  uint8_t tries_ = 0;
  bool fresh_ = false;
  UpstreamFailure last_ = UpstreamFailure::kConnect;
};

/// Which endpoints of the pool a try may go to: not those that have failed the request, and not
/// those that are ejected, unless these are more than half of the pool or all that is left.
/// Cost without failures: one load an endpoint.
class Choice {
 public:
  Choice(const fleet::Snapshot& pool, const Attempts& attempts, bool ejected_too,
         const Clock& clock);
  bool includes(const fleet::Endpoint& endpoint) const { return all_ || includes_now(endpoint); }
  /// Whether ejected endpoints are left out.
  bool leaves_out_ejected() const { return leaves_out_ejected_; }

 private:
  bool includes_now(const fleet::Endpoint& endpoint) const;

  const Attempts& attempts_;
  TimePoint now_{};
  bool all_ = true;
  bool leaves_out_ejected_ = false;
};

/// Whether the endpoint may answer a request that is not an inference: not a prefill- or
/// encode-only server.
bool serves_clients(const fleet::Endpoint& endpoint);

}  // namespace llmd::route
