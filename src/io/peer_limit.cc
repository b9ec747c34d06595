#include "io/peer_limit.h"

#include "base/check.h"

#include <algorithm>
#include <cstring>

namespace llmd::io {
namespace {

/// The bytes that make a peer.
uint64_t identity(const SocketAddress& peer) {
  if (peer.family() != AF_INET6) {
    in_addr v4{};
    if (peer.family() == AF_INET) v4 = reinterpret_cast<const sockaddr_in*>(peer.get())->sin_addr;
    return v4.s_addr;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(peer.get())->sin6_addr;
  uint64_t network = 0;
  if (IN6_IS_ADDR_V4MAPPED(&v6))
    std::memcpy(&network, v6.s6_addr + 12, 4);
  else
    std::memcpy(&network, v6.s6_addr, sizeof network);
  return network;
}

/// A keyed permutation of 64 bits with good avalanche (the finaliser of splitmix64, twice).
uint64_t mix(uint64_t value, uint64_t secret) {
  for (int round = 0; round < 2; ++round) {
    value += secret;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    value ^= value >> 31;
  }
  return value;
}

}  // namespace

PeerLimit::PeerLimit(size_t connections_max, uint64_t secret)
    : connections_max_(connections_max),
      secret_(secret),
      counts_(std::make_unique<std::array<std::atomic<uint32_t>, 2 * kRow>>()) {
  CHECK(connections_max > 0);
}

PeerLimit::Place PeerLimit::take(const SocketAddress& peer) {
  const uint64_t hash = mix(identity(peer), secret_);
  Place place;
  place.at_ = {static_cast<uint32_t>(hash % kRow),
               static_cast<uint32_t>(kRow + (hash >> 32) % kRow)};
  uint32_t held = UINT32_MAX;
  for (const uint32_t at : place.at_) held = std::min(held, (*counts_)[at].fetch_add(1));
  if (held >= connections_max_) {
    give_back(place.at_);
    return {};
  }
  place.limit_ = this;
  return place;
}

void PeerLimit::give_back(std::array<uint32_t, 2> at) {
  for (const uint32_t each : at) (*counts_)[each].fetch_sub(1);
}

}  // namespace llmd::io
