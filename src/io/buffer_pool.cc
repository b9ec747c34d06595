#include "io/buffer_pool.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace llmd::io {

void Buffer::consume(size_t n) {
  size_ -= n;
  if (size_ > 0 && n > 0) std::memmove(data_, data_ + n, size_);
}

void Buffer::reserve_room(size_t n) {
  if (room_size() >= n) return;
  Buffer larger = pool_->take(std::max(size_ + n, capacity_ * 2));
  if (size_ > 0) std::memcpy(larger.data_, data_, size_);
  larger.size_ = size_;
  swap(larger);
}

void Buffer::reserve_declared(size_t n, uint64_t declared) {
  if (room_size() < n)
    reserve_room(std::max<uint64_t>(n, declared - std::min<uint64_t>(declared, size_)));
}

void Buffer::append(std::initializer_list<std::string_view> pieces) {
  size_t total = 0;
  for (const auto piece : pieces) total += piece.size();
  if (total > room_size()) reserve_room(total);
  char* at = room();
  for (const auto piece : pieces) {
    if (piece.empty()) continue;
    std::memcpy(at, piece.data(), piece.size());
    at += piece.size();
  }
  size_ += total;
}

void Buffer::release() {
  if (!data_) return;
  pool_->give_back(data_, capacity_);
  data_ = nullptr;
  size_ = capacity_ = 0;
  pool_ = nullptr;
}

BufferPool::~BufferPool() {
  for (auto& list : free_)
    for (char* data : list) std::free(data);
}

Buffer BufferPool::take(size_t bytes) {
  const size_t capacity = std::bit_ceil(std::max(bytes, kChunkBytes));
  const auto size_class = static_cast<size_t>(std::countr_zero(capacity));
  CHECK(size_class < kClasses);
  Buffer buffer;
  buffer.pool_ = this;
  buffer.capacity_ = capacity;
  if (auto& list = free_[size_class]; !list.empty()) {
    buffer.data_ = list.back();
    list.pop_back();
    retained_ -= capacity;
  } else {
    buffer.data_ = static_cast<char*>(std::malloc(capacity));
    CHECK(buffer.data_ != nullptr);
    ++system_allocations_;
  }
  return buffer;
}

void BufferPool::give_back(char* data, size_t capacity) {
  if (retained_ + capacity > retained_max_) {
    std::free(data);
    return;
  }
  retained_ += capacity;
  free_[static_cast<size_t>(std::countr_zero(capacity))].push_back(data);
}

}  // namespace llmd::io
