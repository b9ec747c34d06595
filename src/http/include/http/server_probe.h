#pragma once

#include "metric/registry.h"

#include <array>
#include <cstdint>

namespace llmd::http {

/// What a server holds clients to.
enum class ClientLimit : uint8_t {
  kConnections,  // accepting paused
  kConnectionsPerPeer,
  kHeaderList,  // bytes or lines of a request's head
  kBody,
  kBufferedBytes,
  kHeadTimeout,
  kBodyTimeout,
  kRequestTimeout,
  kWriteTimeout,
};

/// Counts how often clients met a limit: llmd_client_limits_total{limit}. Copyable; copies count
/// into the same series. Threading: any.
class ServerProbe {
 public:
  explicit ServerProbe(metric::Registry& registry);
  void count(ClientLimit limit) const { counters_[static_cast<size_t>(limit)].add(); }

 private:
  std::array<metric::Counter, 9> counters_;
};

}  // namespace llmd::http
