#pragma once

#include "plugin/params.h"

#include <algorithm>
#include <cstdint>

namespace llmd::plugins {

/// What every picker takes.
struct PickerParams {
  int64_t endpoints_max = 1;

  /// How many of `available` endpoints to pick. Requires: available > 0.
  size_t count(size_t available) const {
    return std::min(static_cast<size_t>(std::max<int64_t>(endpoints_max, 1)), available);
  }
};

inline const plugin::Params<PickerParams>& picker_table() {
  static const plugin::Params<PickerParams> params = {
      plugin::field("maxNumOfEndpoints", &PickerParams::endpoints_max, "endpoints",
                    "How many to pick: the target, then its fallbacks; 1 when 0 or less."),
  };
  return params;
}

}  // namespace llmd::plugins
