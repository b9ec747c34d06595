#include "fleet/engine_details.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace llmd::fleet {
namespace {

constexpr size_t kWaitingAt = EngineDigest::kAdaptersMax;
constexpr size_t kKeysAt = 2 * EngineDigest::kAdaptersMax;
constexpr size_t kValuesAt = kKeysAt + EngineDigest::kAttributesMax;

}  // namespace

uint64_t detail_key(std::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

/// Calls `read` until no write came between. It must tolerate a mixture of old and new words.
template <class Read>
auto EngineDigest::consistently(Read read) const {
  for (;;) {
    const uint32_t before = sequence_.load(std::memory_order_acquire);
    const auto value = read();
    if (sequence_.load(std::memory_order_relaxed) == before && (before & 1) == 0) return value;
  }
}

bool EngineDigest::has(uint64_t key, size_t from, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (get(from + i) == key) return true;
  return false;
}

EngineDigest::Adapter EngineDigest::adapter(uint64_t key) const {
  return consistently([&] {
    const size_t running = counts_[kRunning].load(std::memory_order_acquire);
    const size_t waiting = counts_[kWaiting].load(std::memory_order_acquire);
    return Adapter{.running = has(key, 0, running),
                   .waiting = has(key, kWaitingAt, waiting),
                   .listed = running + waiting};
  });
}

std::optional<double> EngineDigest::attribute(uint64_t key) const {
  return consistently([&]() -> std::optional<double> {
    const size_t count = counts_[kAttributes].load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i)
      if (get(kKeysAt + i) == key) return std::bit_cast<double>(get(kValuesAt + i));
    return std::nullopt;
  });
}

/// Returns how many different names there are now from `from` on.
size_t EngineDigest::put_names(const std::vector<std::string>& names, size_t from) {
  size_t count = 0;
  for (const auto& name : names) {
    const uint64_t key = detail_key(name);
    if (count == kAdaptersMax) break;
    if (!has(key, from, count)) put(from + count++, key);
  }
  return count;
}

void EngineDigest::store(const EngineDetails& details) {
  const uint32_t sequence = sequence_.load(std::memory_order_relaxed);
  sequence_.store(sequence + 1, std::memory_order_relaxed);
  size_t attributes = 0;
  const auto put_attribute = [&](std::string_view key, double value) {
    if (attributes == kAttributesMax) return;
    put(kKeysAt + attributes, detail_key(key));
    put(kValuesAt + attributes++, std::bit_cast<uint64_t>(value));
  };
  for (const auto& [key, value] : details.custom)
    put_attribute(key + std::string(kCoreProducer), value);
  for (const auto& [key, value] : details.attributes) put_attribute(key, value);
  const std::array<size_t, kCounts> counts = {put_names(details.running_adapters, 0),
                                              put_names(details.waiting_adapters, kWaitingAt),
                                              attributes};
  for (size_t i = 0; i < kCounts; ++i)
    counts_[i].store(static_cast<uint32_t>(counts[i]), std::memory_order_release);
  sequence_.store(sequence + 2, std::memory_order_release);
}

}  // namespace llmd::fleet
