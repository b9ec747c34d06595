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
  kStreams,        // of an HTTP/2 connection at once
  kResets,         // of HTTP/2 streams
  kControlFrames,  // of HTTP/2
};

/// Counts how often clients met a limit: llmd_client_limits_total{limit}. Copyable; copies count
/// into the same series. Threading: any.
class ServerProbe {
 public:
  explicit ServerProbe(metric::Registry& registry);
  void count(ClientLimit limit) const { counter(limit).add(); }
  const metric::Counter& counter(ClientLimit limit) const {
    return counters_[static_cast<size_t>(limit)];
  }

 private:
  std::array<metric::Counter, 12> counters_;
};

}  // namespace llmd::http
