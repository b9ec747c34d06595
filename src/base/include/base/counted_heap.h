#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

/// For benchmarks and tests: replaces operator new by one that counts. One source of a program may
/// include this.
namespace llmd::counted_heap {

inline std::atomic<uint64_t> allocations_made{0};
inline std::atomic<uint64_t> bytes_taken{0};

/// By all threads, since the program began.
inline uint64_t allocations() {
  return allocations_made.load(std::memory_order_relaxed);
}
/// The same; what is given back is not taken off.
inline uint64_t bytes() {
  return bytes_taken.load(std::memory_order_relaxed);
}

}  // namespace llmd::counted_heap

// The compiler cannot tell that both sides are replaced.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  llmd::counted_heap::allocations_made.fetch_add(1, std::memory_order_relaxed);
  llmd::counted_heap::bytes_taken.fetch_add(bytes, std::memory_order_relaxed);
  return std::malloc(bytes);
}
void* operator new(size_t bytes) {
  if (void* at = operator new(bytes, std::nothrow)) return at;
  std::abort();
}
void operator delete(void* at) noexcept {
  std::free(at);
}
void operator delete(void* at, size_t) noexcept {
  std::free(at);
}
