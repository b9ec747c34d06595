#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace llmd::io {

/// A bound on the bytes that a process buffers for its peers, over all loops. Threading: any. Cost:
/// one atomic addition; holders ask in steps of a buffer's growth, not per byte.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t bytes_max) : max_(bytes_max) {}

  /// Whether `bytes` more fit; they then count until they are given back.
  bool take(uint64_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= max_) return true;
    give_back(bytes);
    return false;
  }
  /// Counts bytes that have another bound of their own, whatever is left.
  void force(uint64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_back(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t max() const { return max_; }

 private:
  const uint64_t max_;
  std::atomic<uint64_t> used_{0};
};

/// What one buffer holds of a budget; given back on destruction. Threading: one loop.
class BudgetShare {
 public:
  explicit BudgetShare(ByteBudget& budget) : budget_(&budget) {}
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;
  ~BudgetShare() { force(0); }

  /// Makes the share `bytes` large; false, and unchanged, when it would grow beyond the budget.
  bool resize(uint64_t bytes) {
    if (bytes > held_ && !budget_->take(bytes - held_)) return false;
    if (bytes < held_) budget_->give_back(held_ - bytes);
    held_ = bytes;
    return true;
  }
  void force(uint64_t bytes) {
    if (bytes > held_) budget_->force(bytes - held_);
    if (bytes < held_) budget_->give_back(held_ - bytes);
    held_ = bytes;
  }

 private:
  ByteBudget* budget_;
  uint64_t held_ = 0;
};

}  // namespace llmd::io
