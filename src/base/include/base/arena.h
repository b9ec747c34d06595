#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace llmd {

/// Bump allocator that holds everything a request needs for as long as the request lives.
/// Destructors do not run, so only trivially destructible types fit. reset() keeps the largest
/// chunk (up to kRetainedBytesMax), so an arena that is reused for requests of one kind stops
/// allocating. Threading: one thread. Cost: a pointer bump; one heap allocation per extra chunk
/// (each at least twice the last).
class Arena {
 public:
  explicit Arena(size_t first_chunk_bytes = 4096);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* allocate(size_t bytes, size_t alignment) {
    const auto at = (reinterpret_cast<uintptr_t>(next_) + alignment - 1) & ~(alignment - 1);
    if (at + bytes > reinterpret_cast<uintptr_t>(end_)) [[unlikely]]
      return allocate_slow(bytes, alignment);
    next_ = reinterpret_cast<char*>(at + bytes);
    return reinterpret_cast<void*>(at);
  }

  /// `n` value-initialised objects (zeros for plain data).
  template <class T>
  std::span<T> array(size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    T* first = static_cast<T*>(allocate(n * sizeof(T), alignof(T)));
    for (size_t i = 0; i < n; ++i) new (first + i) T();
    return {first, n};
  }

  /// The same, not initialised: the caller sets each before anybody reads it.
  template <class T>
  std::span<T> room(size_t n) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    return {static_cast<T*>(allocate(n * sizeof(T), alignof(T))), n};
  }

  template <class T, class... Args>
  T* make(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }

  /// A copy of `text` that lives as long as the arena's contents.
  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* at = static_cast<char*>(allocate(text.size(), 1));
    std::memcpy(at, text.data(), text.size());
    return {at, text.size()};
  }

  static constexpr size_t kRetainedBytesMax = 1 << 20;

  /// Frees all contents.
  void reset();

  /// Bytes of heap held, free space included.
  size_t capacity() const { return capacity_; }
  /// Number of chunks allocated beyond the first since the last reset.
  size_t extra_chunks() const { return chunks_.size() - 1; }

 private:
  void* allocate_slow(size_t bytes, size_t alignment);

  struct Chunk {
    std::unique_ptr<char[]> data;
    size_t size;
  };
  std::vector<Chunk> chunks_;
  char* next_;
  char* end_;
  size_t capacity_;
};

}  // namespace llmd
