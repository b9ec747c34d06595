#pragma once

#include "metric/registry.h"

#include <array>
#include <string_view>

namespace llmd::render {

inline const metric::Definition kCalls = {
    .name = "llmd_render_calls_total",
    .kind = metric::Kind::kCounter,
    .help = "Prompts sent to be turned into tokens, to a server or to a tokenizer here.",
    .labels = {"result"},
    .buckets = {},
    .twins = {},
};

/// Counts what came of questions.
struct Calls {
  static Calls of(metric::Registry& registry) {
    auto& family = registry.family(kCalls);
    const auto counter = [&](std::string_view result) {
      return family.counter(std::array{result});
    };
    return {counter("answered"), counter("failed")};
  }
  const metric::Counter& of(bool success) const { return success ? answered : failed; }

  metric::Counter answered, failed;
};

}  // namespace llmd::render
