#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace llmd::kv {

/// Tells writers when no reader can still see what they have taken out of view, without making
/// readers wait: what is taken out in epoch e may be freed from epoch e + 2 on.
///
/// A reader counts itself in the epoch that it finds. The epoch moves from e to e + 1 only when
/// nobody is counted in e - 1, so readers are only ever in the epoch of now or in the one before.
/// Threading: all methods from any thread. Cost: two atomic additions a reader, on a line that few
/// threads share.
class Epochs {
 public:
  class Reader {
   public:
    explicit Reader(const Epochs& epochs) : count_(&epochs.enter()) {}
    ~Reader() { count_->fetch_sub(1, std::memory_order_release); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

   private:
    std::atomic<uint32_t>* count_;
  };

  /// The epoch of what was taken out before the call.
  uint64_t taken_out() { return now_.fetch_add(0, std::memory_order_acq_rel); }
  uint64_t now() const { return now_.load(std::memory_order_acquire); }

  /// Moves on to the next epoch if no reader is left in the one before. Never waits.
  void advance() {
    uint64_t now = now_.load(std::memory_order_seq_cst);
    for (const Stripe& stripe : stripes_)
      if (stripe.readers[(now - 1) % 3].load(std::memory_order_seq_cst) != 0) return;
    now_.compare_exchange_strong(now, now + 1, std::memory_order_seq_cst);
  }

 private:
  struct alignas(64) Stripe {
    mutable std::array<std::atomic<uint32_t>, 3> readers{};  // of epochs e with e % 3
  };
  static constexpr size_t kStripes = 16;

  std::atomic<uint32_t>& enter() const {
    static std::atomic<size_t> threads{0};
    thread_local const size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % kStripes;
    while (true) {
      const uint64_t now = now_.load(std::memory_order_seq_cst);
      auto& count = stripes_[mine].readers[now % 3];
      count.fetch_add(1, std::memory_order_seq_cst);
      if (now_.load(std::memory_order_seq_cst) == now) return count;
      count.fetch_sub(1, std::memory_order_release);
    }
  }

  std::atomic<uint64_t> now_{3};
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace llmd::kv
