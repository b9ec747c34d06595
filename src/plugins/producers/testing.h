#pragma once

#include "request/request_view.h"
#include "schedule/testing.h"

#include <cstdint>
#include <numeric>
#include <vector>

namespace llmd::plugins::testing {

/// A request with prompts of token ids 1, 2, 3 …, on the harness.
class TokenRequest {
 public:
  TokenRequest(schedule::testing::Harness& harness, std::vector<uint32_t> prompt_tokens,
               std::string_view model = "m") {
    for (const uint32_t n : prompt_tokens) {
      ids_.emplace_back(n);
      std::iota(ids_.back().begin(), ids_.back().end(), 1u);
    }
    for (const auto& ids : ids_) prompts_.push_back({.token_ids = ids, .pieces = {}});
    view.prompts = prompts_;
    harness.fresh_request();
    harness.context.request = &view;
    harness.context.target_model = model;
    harness.context.fairness_id = "tenant";
  }
  TokenRequest(const TokenRequest&) = delete;
  TokenRequest& operator=(const TokenRequest&) = delete;

  /// The ids of prompt i, to make it differ from others.
  std::vector<uint32_t>& ids(size_t i) { return ids_[i]; }

  request::RequestView view;

 private:
  std::vector<std::vector<uint32_t>> ids_;
  std::vector<request::Prompt> prompts_;
};

}  // namespace llmd::plugins::testing
