#pragma once

#include "base/check.h"
#include "io/buffer_pool.h"
#include "io/byte_budget.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace llmd::http2 {

/// A part of what is to be sent. `stays`: the bytes stay where they are until the stream is over,
/// so they go to the socket from there; other bytes are copied during the call.
struct Piece {
  std::string_view bytes;
  bool stays = false;
};

/// Bytes in order, as runs: each lies outside, or is the next part of a buffer of the owner's.
/// Threading: one loop.
class Runs {
 public:
  struct Run {
    const char* data;  // null: in the owner's buffer
    size_t size;
  };

  size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  /// What is left, in order.
  std::span<const Run> left() const { return std::span(runs_).subspan(first_); }
  /// Adds bytes that stay where they are; null data: `run.size` bytes more of the owner's buffer.
  void add(Run run);
  /// Takes the first `n` bytes off, and passes them on run by run.
  template <class Take>
  void take(size_t n, Take take);
  void clear() {
    runs_.clear();
    first_ = bytes_ = 0;
  }

 private:
  std::vector<Run> runs_;
  size_t first_ = 0;
  size_t bytes_ = 0;
};

template <class Take>
void Runs::take(size_t n, Take take) {
  CHECK(n <= bytes_);
  bytes_ -= n;
  while (n > 0) {
    Run& run = runs_[first_];
    const size_t part = std::min(n, run.size);
    take(Run{run.data, part});
    n -= part;
    run.size -= part;
    if (run.data) run.data += part;
    if (run.size == 0) ++first_;
  }
}

/// What one flush of a connection sends, in order: small runs are copied together, large ones are
/// left where they are. Threading: one loop.
class Gather {
 public:
  explicit Gather(io::BufferPool& buffers) : buffers_(buffers) {}

  void copy(std::string_view bytes);
  /// `bytes` must stay until sent() or keep_rest().
  void add(std::string_view bytes);

  size_t bytes() const { return runs_.bytes(); }
  bool empty() const { return runs_.empty(); }
  /// Up to `views.size()` views of the front; returns how many.
  size_t front(std::span<std::string_view> views) const;
  /// The first `n` bytes are gone.
  void sent(size_t n);
  /// Copies what is left, so that nothing outside is referred to any more.
  void keep_rest();

 private:
  static constexpr size_t kReferenceBytesMin = 2048;

  io::BufferPool& buffers_;
  io::Buffer copied_;
  size_t copied_sent_ = 0;
  Runs runs_;
};

/// The unsent bytes of one stream. Copied bytes are in `own_`, bytes that stay are referred to.
/// Threading: one loop.
class OutputQueue {
 public:
  OutputQueue(io::BufferPool& buffers, io::ByteBudget& budget)
      : buffers_(buffers), share_(budget) {}

  void push(const Piece& piece);
  size_t bytes() const { return runs_.bytes(); }
  /// The part of bytes() that takes memory here.
  size_t own_bytes() const { return own_.size() - own_sent_; }
  /// Moves the first `n` bytes to `gather`. What is referred to stays until the next push().
  void pop(size_t n, Gather& gather);
  /// Gives memory back when nothing is unsent. Requires: no gather refers to what was popped.
  void release_drained() {
    if (!runs_.empty()) return;
    own_.release();
    own_sent_ = 0;
    share_.force(0);
  }

 private:
  void append_own(std::string_view bytes);

  io::BufferPool& buffers_;
  io::BudgetShare share_;
  io::Buffer own_;
  size_t own_sent_ = 0;
  Runs runs_;
};

}  // namespace llmd::http2
