#pragma once

#include "io/socket.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace llmd::io {

/// Caps the connections that one peer may hold at a time, over all loops of the process. A peer is
/// an IPv4 address or an IPv6 /64 network.
///
/// Counts live in two tables of fixed size, at places that a secret hash of the peer chooses; the
/// smaller of a peer's two counts decides. So memory does not grow with peers, nobody can aim at
/// another's places, and a peer is refused for others' connections only if both its places are
/// shared with busy ones: with n other peers at the cap, in about (n / 32768)² of cases.
/// Threading: any, without locks. Lifetime: outlives its places.
class PeerLimit {
 public:
  /// One connection's share; gives it back when destroyed.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : limit_(std::exchange(other.limit_, nullptr)), at_(other.at_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(limit_, other.limit_);
      std::swap(at_, other.at_);
      return *this;
    }
    ~Place() {
      if (limit_) limit_->give_back(at_);
    }
    /// False: the peer holds as many connections as it may.
    explicit operator bool() const { return limit_ != nullptr; }

   private:
    friend class PeerLimit;
    PeerLimit* limit_ = nullptr;
    std::array<uint32_t, 2> at_{};
  };

  /// `secret`: random, of this process. Requires: connections_max > 0.
  PeerLimit(size_t connections_max, uint64_t secret);

  Place take(const SocketAddress& peer);

 private:
  static constexpr size_t kRow = 32768;
  void give_back(std::array<uint32_t, 2> at);

  const size_t connections_max_;
  const uint64_t secret_;
  std::unique_ptr<std::array<std::atomic<uint32_t>, 2 * kRow>> counts_;
};

}  // namespace llmd::io
