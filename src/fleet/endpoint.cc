#include "fleet/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace llmd::fleet {

static_assert(std::is_trivially_copyable_v<EndpointMetrics>);

// The order of a seqlock without fences: words are stored with release, so a reader that acquires
// one of them also sees the odd sequence stored before it; words are loaded with acquire, so the
// second look at the sequence comes after them.
void MetricsSlot::store(const EndpointMetrics& m) {
  uint64_t words[kWords] = {};
  std::memcpy(words, &m, sizeof m);
  const uint32_t sequence = sequence_.load(std::memory_order_relaxed);
  sequence_.store(sequence + 1, std::memory_order_relaxed);
  for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
  sequence_.store(sequence + 2, std::memory_order_release);
}

EndpointMetrics MetricsSlot::load() const {
  uint64_t words[kWords];
  uint32_t before = 0;
  uint32_t after = 0;
  do {
    before = sequence_.load(std::memory_order_acquire);
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
    after = sequence_.load(std::memory_order_relaxed);
  } while (before != after || (before & 1) != 0);
  EndpointMetrics m;
  std::memcpy(&m, words, sizeof m);
  return m;
}

std::string host_port(std::string_view address, uint16_t port) {
  return address.find(':') == std::string_view::npos ? fmt::format("{}:{}", address, port)
                                                     : fmt::format("[{}]:{}", address, port);
}

Endpoint::Endpoint(EndpointSpec spec, uint32_t slot, uint64_t generation)
    : slot_(slot),
      generation_(generation),
      spec_(std::move(spec)),
      id_(fmt::format("{}/{}", spec_.ns, spec_.name)),
      id_hash_(detail_key(id_)),
      host_port_(fleet::host_port(spec_.address, spec_.port)) {}

const std::string* Endpoint::label(std::string_view key) const {
  const auto& labels = spec_.labels;
  const auto at = std::ranges::lower_bound(
      labels, key, {}, [](const auto& l) -> std::string_view { return l.first; });
  return at != labels.end() && at->first == key ? &at->second : nullptr;
}

}  // namespace llmd::fleet
