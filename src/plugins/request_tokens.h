#pragma once

#include "kv/block_hash.h"
#include "schedule/request_context.h"

#include <cstdint>

namespace llmd::plugins {

/// Tokens of all prompts of the request; 0 when nothing is known about them.
inline int64_t request_tokens(const schedule::RequestContext& context) {
  int64_t tokens = 0;
  if (context.request)
    for (const auto& prompt : context.request->prompts) tokens += kv::token_count(prompt);
  return tokens;
}

}  // namespace llmd::plugins
