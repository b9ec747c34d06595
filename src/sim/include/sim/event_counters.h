#pragma once

#include <cstdint>

namespace llmd::sim {

/// What a server's KV events have said and what became of their messages.
struct EventCounters {
  uint64_t blocks_stored = 0;
  uint64_t blocks_removed = 0;
  uint64_t clears = 0;
  uint64_t blocks_resident = 0;                      // now
  uint64_t messages = 0;                             // made, whether or not they were sent
  uint64_t lost = 0, duplicated = 0, reordered = 0;  // on request
  uint64_t dropped = 0;                              // too many were delayed
  uint64_t replays = 0;                              // questions answered
  uint64_t revision = 0;                             // changes with any of these
};

}  // namespace llmd::sim
