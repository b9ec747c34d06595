#pragma once

#include "base/headers.h"
#include "base/text.h"

#include <cmath>

namespace llmd::plugins {

/// The latency objectives of a request, in milliseconds; 0: none.
struct Slo {
  double ttft = 0;  // to the first token
  double tpot = 0;  // per token after it

  /// What the headers say; an older name counts where the newer one is absent, and what is no
  /// finite number is none.
  static Slo of(HeaderView headers) {
    const auto read = [&](std::string_view name, std::string_view old_name) {
      const auto text = headers.find(name);
      const double value = parse_double(text ? *text : headers.get(old_name)).value_or(0);
      return std::isfinite(value) ? value : 0;
    };
    return {.ttft = read("x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"),
            .tpot = read("x-llm-d-slo-tpot-ms", "x-slo-tpot-ms")};
  }
};

}  // namespace llmd::plugins
