#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

namespace llmd::metric {

/// The cells of one series: one row of words per writing loop, rows on cache lines of their own. A
/// counter or gauge has one word; a histogram has the sum of what was observed and then a count per
/// bucket (the last is +Inf): a value in one of the first buckets touches a single line. Threading:
/// a row other than 0 has one writer, which may therefore load and store; row 0 is shared and uses
/// read-modify-write. Readers see each word whole, and a sum of words that may be a few writes old.
class Series {
 public:
  Series(size_t cells, std::span<const double> bounds, bool histogram)
      : bounds_(bounds),
        words_(histogram ? bounds.size() + 2 : 1),
        lines_per_cell_((words_ + kLineWords - 1) / kLineWords),
        cells_(cells),
        lines_(std::make_unique<Line[]>(cells * lines_per_cell_)) {}

  void add(size_t cell, size_t word, double n) {
    auto& w = at(cell, word);
    if (cell == 0)
      w.fetch_add(n, std::memory_order_relaxed);
    else
      w.store(w.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  void set(double v) { at(0, 0).store(v, std::memory_order_relaxed); }

  double total(size_t word) const {
    double sum = 0;
    for (size_t cell = 0; cell < cells_; ++cell)
      sum += at(cell, word).load(std::memory_order_relaxed);
    return sum;
  }

  size_t cells() const { return cells_; }
  size_t words() const { return words_; }
  std::span<const double> bounds() const { return bounds_; }

 private:
  static constexpr size_t kLineWords = 8;
  struct alignas(64) Line {
    std::atomic<double> words[kLineWords]{};
  };

  std::atomic<double>& at(size_t cell, size_t word) const {
    return lines_[cell * lines_per_cell_ + word / kLineWords].words[word % kLineWords];
  }

  const std::span<const double> bounds_;
  const size_t words_;
  const size_t lines_per_cell_;
  const size_t cells_;
  const std::unique_ptr<Line[]> lines_;
};

}  // namespace llmd::metric
