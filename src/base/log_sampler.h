#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace llmd::log {

/// Which of many equal messages are written: of each message the first kFirst in a second, then
/// every kThereafter-th (spec 04 §5). A message is a cell of a fixed table by its hash, so two may
/// share one; memory does not grow with messages.
/// Threading: any, without locks; around the turn of a second a few lines more may pass.
class LogSampler {
 public:
  static constexpr uint64_t kFirst = 100;
  static constexpr uint64_t kThereafter = 100;

  /// Whether to write the message at `now_ns`, nanoseconds of any clock that goes forward.
  bool admit(std::string_view message, int64_t now_ns) {
    Cell& cell = cells_[std::hash<std::string_view>()(message) % cells_.size()];
    const int64_t second = now_ns / 1'000'000'000;
    if (cell.second.exchange(second, std::memory_order_relaxed) != second)
      cell.count.store(0, std::memory_order_relaxed);
    const uint64_t n = cell.count.fetch_add(1, std::memory_order_relaxed) + 1;
    return n <= kFirst || (n - kFirst) % kThereafter == 0;
  }

 private:
  struct Cell {
    std::atomic<int64_t> second{-1};
    std::atomic<uint64_t> count{0};
  };
  std::array<Cell, 1024> cells_;
};

}  // namespace llmd::log
