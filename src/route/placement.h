#pragma once

#include "fleet/endpoint.h"
#include "fleet/health.h"
#include "request/request_view.h"
#include "route/retry.h"

#include <span>

namespace llmd::route {

/// Where a request is: the endpoints that a try chose, the preferred first, of which that one has
/// it. While it does, the request counts among its open ones, and how it answers is told to the
/// ejector. Whoever owns it ends with left(). Threading: one loop.
class Placement {
 public:
  explicit Placement(const fleet::Ejector& ejector) : ejector_(ejector) {}

  void choose(std::span<fleet::Endpoint* const> endpoints) { endpoints_ = endpoints; }
  std::span<fleet::Endpoint* const> endpoints() const { return endpoints_; }
  /// Null: none was chosen. It stays after left(), for what is to be said of it.
  fleet::Endpoint* endpoint() const { return endpoints_.empty() ? nullptr : endpoints_[0]; }

  /// The request goes to endpoint().
  void sent(TimePoint now) {
    if (!endpoint()->health.healthy()) ejector_.sent(*endpoint(), now);
    open_at(endpoint());
  }
  /// Another has it: the first of `endpoints`.
  void moved(std::span<fleet::Endpoint* const> endpoints) {
    choose(endpoints);
    open_at(endpoint());
  }
  void answered(int status, const fleet::Snapshot& pool, TimePoint now) {
    if (status >= 500)
      ejector_.failed(*endpoint(), fleet::Ejector::Cause::kStatus5xx, pool, now);
    else
      ejector_.answered(*endpoint());
  }
  void failed(UpstreamFailure failure, const fleet::Snapshot& pool, TimePoint now) {
    if (failure == UpstreamFailure::kConnect)
      ejector_.failed(*endpoint(), fleet::Ejector::Cause::kConnect, pool, now);
    if (failure == UpstreamFailure::kTimeout)
      ejector_.failed(*endpoint(), fleet::Ejector::Cause::kTimeout, pool, now);
  }
  /// What the answer says of the prompt, where it tells what was cached.
  void used(const request::Usage& usage) {
    if (!usage.cached_tokens) return;
    endpoint()->prompt_tokens.fetch_add(usage.prompt_tokens, std::memory_order_relaxed);
    endpoint()->cached_tokens.fetch_add(*usage.cached_tokens, std::memory_order_relaxed);
  }
  /// The request is over, or will be sent again.
  void left() { open_at(nullptr); }

 private:
  void open_at(fleet::Endpoint* endpoint) {
    if (open_at_) open_at_->open_requests.fetch_sub(1, std::memory_order_relaxed);
    open_at_ = endpoint;
    if (open_at_) open_at_->open_requests.fetch_add(1, std::memory_order_relaxed);
  }

  const fleet::Ejector& ejector_;
  std::span<fleet::Endpoint* const> endpoints_;
  fleet::Endpoint* open_at_ = nullptr;
};

}  // namespace llmd::route
