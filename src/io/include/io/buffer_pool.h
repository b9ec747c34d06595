#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::io {

class BufferPool;

/// A contiguous run of bytes that belongs to a pool and goes back to it on destruction. Empty when
/// default-constructed. `size()` bytes from the start are content; the rest up to capacity() is
/// uninitialised room. Lifetime: not beyond its pool. Threading: the pool's loop.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      release();
      swap(other);
    }
    return *this;
  }
  ~Buffer() { release(); }

  explicit operator bool() const { return data_ != nullptr; }
  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  std::string_view view() const { return {data_, size_}; }

  char* room() { return data_ + size_; }
  size_t room_size() const { return capacity_ - size_; }
  /// Counts `n` bytes of the room as content. Requires: n <= room_size().
  void commit(size_t n) { size_ += n; }
  void resize_down(size_t n) { size_ = n; }
  /// Moves the content after the first `n` bytes to the front. Requires: n <= size().
  void consume(size_t n);
  /// Makes room for `n` more bytes; may move the content. Requires: the buffer is not
  /// empty-constructed.
  void reserve_room(size_t n);
  /// The same for content of which `declared` bytes are said to come in all: room for those as soon
  /// as there is too little for `n`, so that a mere promise costs nothing and a kept one no moves.
  void reserve_declared(size_t n, uint64_t declared);
  void append(std::string_view bytes) { append({bytes}); }
  /// The pieces one behind the other.
  void append(std::initializer_list<std::string_view> pieces);
  /// Gives the memory back to the pool.
  void release();

 private:
  friend class BufferPool;
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(pool_, other.pool_);
  }
  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  BufferPool* pool_ = nullptr;
};

/// Reusable buffers of power-of-two sizes, so that a steady load neither allocates nor touches
/// fresh pages. Freed buffers are kept up to `retained_bytes_max` in all; beyond it they go back to
/// the system. Threading: one loop. Cost of take() in steady state: a pop from a free list.
class BufferPool {
 public:
  static constexpr size_t kChunkBytes = 16 * 1024;

  explicit BufferPool(size_t retained_bytes_max = 64u << 20) : retained_max_(retained_bytes_max) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// A buffer with room for `bytes` at least (a chunk when smaller).
  Buffer take(size_t bytes = kChunkBytes);

  size_t retained_bytes() const { return retained_; }
  /// How many buffers came from the system rather than from a free list.
  size_t system_allocations() const { return system_allocations_; }

 private:
  friend class Buffer;
  static constexpr size_t kClasses = 48;
  void give_back(char* data, size_t capacity);

  const size_t retained_max_;
  size_t retained_ = 0;
  size_t system_allocations_ = 0;
  std::vector<char*> free_[kClasses];
};

}  // namespace llmd::io
