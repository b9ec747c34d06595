#pragma once

#include <cstddef>

namespace llmd::kv_precise {

/// Metric cell of the threads that plugins start: beyond every registry's, so that they share one.
inline constexpr size_t kSharedCell = size_t{1} << 32;

}  // namespace llmd::kv_precise
