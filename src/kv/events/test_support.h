#pragma once

#include "base/text.h"
#include "kv_events/event.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::kv_events::testing {

/// Bytes from hex digits; white space is for the eye.
inline std::string bytes(std::string_view hex) {
  std::string out;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ' || c == '\n') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high >= 0) out.push_back(static_cast<char>(high << 4 | digit));
    high = high < 0 ? digit : -1;
  }
  return out;
}

/// An event on one line, all of it, for comparison.
inline std::string describe(const Event& event) {
  if (event.type == Event::Type::kCleared) return "cleared";
  const bool stored = event.type == Event::Type::kStored;
  std::string out =
      fmt::format("{} {} {}", stored ? "stored" : "removed", event.blocks, event.medium);
  if (event.group != Event::kNoGroup) out += fmt::format(" group {}", event.group);
  if (!stored) return out;
  out += fmt::format(" parent {} tokens {} of {}", event.parent, event.tokens, event.block_tokens);
  if (!event.lora_name.empty()) out += fmt::format(" lora {}", event.lora_name);
  for (size_t i = 0; i < event.extras.size(); ++i)
    if (!event.extras[i].empty()) out += fmt::format(" extras[{}] {}", i, event.extras[i]);
  if (event.cache_kind != CacheKind::kUnstated)
    out += fmt::format(" {}", cache_kind_name(event.cache_kind));
  if (event.sliding_window) out += fmt::format(" window {}", event.sliding_window);
  return out;
}

inline std::vector<std::string> describe(const Batch& batch) {
  std::vector<std::string> out;
  for (const Event& event : batch.events) out.push_back(describe(event));
  return out;
}

}  // namespace llmd::kv_events::testing
