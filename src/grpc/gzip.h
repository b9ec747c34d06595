#pragma once

#include "io/buffer_pool.h"
#include "io/byte_budget.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmd::grpc {

enum class Inflated : uint8_t { kWhole, kTooLarge, kMalformed, kNoMemory };

/// Replaces `out` with the content of the one gzip stream that `compressed` is. Stops at the first
/// byte beyond `bytes_max`, however little was sent for it; what `out` takes counts in `share`.
Inflated inflate_gzip(std::string_view compressed, size_t bytes_max, io::BufferPool& buffers,
                      io::BudgetShare& share, io::Buffer& out);

}  // namespace llmd::grpc
