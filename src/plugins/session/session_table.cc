#include "session_table.h"

namespace llmd::plugins {
namespace {

constexpr uint64_t kBusy = ~uint64_t{0};
constexpr unsigned kSecondBits = 24;
constexpr uint64_t kSecondMask = (uint64_t{1} << kSecondBits) - 1;

uint64_t second_of(TimePoint time) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch());
  return static_cast<uint64_t>(whole.count()) & kSecondMask;
}

/// Seconds since the entry was seen. They wrap after half a year; an entry of another loop's next
/// second is not old.
uint64_t age_of(uint64_t bound, uint64_t now) {
  const uint64_t age = (now - bound) & kSecondMask;
  return age > kSecondMask / 2 ? 0 : age;
}

bool is_alive(uint64_t bound, uint64_t now, Nanos ttl) {
  return std::chrono::seconds(age_of(bound, now)) <= ttl;
}

}  // namespace

SessionTable::SessionTable() : buckets_(new std::array<Bucket, kBuckets>()) {}

std::optional<uint64_t> SessionTable::find(uint64_t session, TimePoint now, Nanos ttl) const {
  for (const auto& entry : bucket_of(session)) {
    if (entry.session.load(std::memory_order_acquire) != session) continue;
    const uint64_t bound = entry.bound.load(std::memory_order_acquire);
    // Replaced in between?
    if (entry.session.load(std::memory_order_relaxed) != session) continue;
    if (is_alive(bound, second_of(now), ttl)) return bound >> kSecondBits;
  }
  return std::nullopt;
}

void SessionTable::bind(uint64_t session, uint64_t endpoint, TimePoint now) {
  const uint64_t second = second_of(now);
  const uint64_t bound = (endpoint & kIdMask) << kSecondBits | second;
  auto& bucket = bucket_of(session);
  for (;;) {
    Entry* oldest = nullptr;
    uint64_t in_oldest = 0;
    uint64_t age = 0;
    for (auto& entry : bucket) {
      uint64_t before = entry.bound.load(std::memory_order_acquire);
      const uint64_t holder = entry.session.load(std::memory_order_acquire);
      if (holder == session) {
        // Fails when the entry has been replaced since.
        entry.bound.compare_exchange_strong(before, bound, std::memory_order_release);
        return;
      }
      if (holder == kBusy) continue;
      const uint64_t its_age = holder == 0 ? UINT64_MAX : age_of(before, second);
      if (oldest && its_age <= age) continue;
      oldest = &entry;
      in_oldest = holder;
      age = its_age;
    }
    if (!oldest)
      return;  // everyone else is replacing here; the session binds with its next request
    if (!oldest->session.compare_exchange_strong(in_oldest, kBusy, std::memory_order_acq_rel))
      continue;
    oldest->bound.store(bound, std::memory_order_release);
    oldest->session.store(session, std::memory_order_release);
    return;
  }
}

size_t SessionTable::size(TimePoint now, Nanos ttl) const {
  size_t count = 0;
  for (const auto& bucket : *buckets_)
    for (const auto& entry : bucket) {
      const uint64_t session = entry.session.load(std::memory_order_acquire);
      if (session != 0 && session != kBusy &&
          is_alive(entry.bound.load(std::memory_order_relaxed), second_of(now), ttl))
        ++count;
    }
  return count;
}

}  // namespace llmd::plugins
