#pragma once

#include "metric/registry.h"

#include <memory>

namespace llmd::metric {

/// Exposes what the operating system knows of this process under the names that Prometheus clients
/// use
/// (`process_resident_memory_bytes`, `process_cpu_seconds_total`, ...), and
/// `llmd_soft_check_failures_total` and `llmd_log_lines_dropped_total`. Values are read at each
/// render; what /proc does not say is not exposed. The returned token ends it. Requires: `registry`
/// outlives the token.
std::shared_ptr<void> collect_process(Registry& registry);

}  // namespace llmd::metric
