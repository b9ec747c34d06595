#pragma once

#include "fleet/endpoint.h"

namespace llmd::route {

/// Counts a request among the open ones of the endpoint that has it, one at a time. Whoever owns it
/// ends with move_to(nullptr). Threading: one loop.
class OpenRequest {
 public:
  fleet::Endpoint* endpoint() const { return endpoint_; }
  void move_to(fleet::Endpoint* endpoint) {
    if (endpoint_) endpoint_->open_requests.fetch_sub(1, std::memory_order_relaxed);
    endpoint_ = endpoint;
    if (endpoint_) endpoint_->open_requests.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  fleet::Endpoint* endpoint_ = nullptr;
};

}  // namespace llmd::route
