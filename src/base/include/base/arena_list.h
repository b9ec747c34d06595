#pragma once

#include "base/arena.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

namespace llmd {

/// A growing array in an arena. Grown-out storage stays in the arena until its reset, so a list of
/// n elements takes at most about 3 n. Trivially destructible; views are valid until the next
/// push_back.
template <class T>
class ArenaList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit ArenaList(Arena& arena) : arena_(&arena) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  std::span<T> view() { return {data_, size_}; }
  std::span<const T> view() const { return {data_, size_}; }

  void push_back(const T& value) {
    if (size_ == capacity_) reserve(size_ + 1);
    data_[size_++] = value;
  }

  void append(std::span<const T> values) {
    if (values.empty()) return;
    if (capacity_ - size_ < values.size()) reserve(size_ + values.size());
    std::memcpy(data_ + size_, values.data(), values.size_bytes());
    size_ += values.size();
  }

  /// Drops elements from the end. Requires: size <= size().
  void resize(size_t size) { size_ = size; }
  void clear() { size_ = 0; }

  /// Room for `wanted` elements, or more.
  void reserve(size_t wanted) {
    if (wanted <= capacity_) return;
    const size_t capacity = std::max({wanted, capacity_ * 2, size_t{8}});
    T* const data = static_cast<T*>(arena_->allocate(capacity * sizeof(T), alignof(T)));
    if (size_ > 0) std::memcpy(data, data_, size_ * sizeof(T));
    data_ = data;
    capacity_ = capacity;
  }

 private:
  Arena* arena_;
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace llmd
