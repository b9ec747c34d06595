#pragma once

#include "series.h"

#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "metric/registry.h"

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace llmd::metric {

using Labels = std::vector<std::string>;

struct LabelsHash {
  using is_transparent = void;
  template <class Range>
  size_t operator()(const Range& values) const {
    size_t hash = 0;
    for (const std::string_view value : values)
      hash = (hash ^ keyed_hash(value)) * 0x9e3779b97f4a7c15;
    return hash;
  }
};

struct LabelsEqual {
  using is_transparent = void;
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return std::ranges::equal(a, b, [](std::string_view x, std::string_view y) { return x == y; });
  }
};

/// A twin with its own copies of all names; `from` are indices of the canonical labels it keeps.
struct TwinView {
  std::string name;
  std::vector<std::string> labels;
  std::vector<size_t> from;
};

class FamilyImpl final : public Family {
 public:
  FamilyImpl(const Definition& definition, size_t cells);

  Counter counter(std::span<const std::string_view> label_values) override;
  Gauge gauge(std::span<const std::string_view> label_values) override;
  Histogram histogram(std::span<const std::string_view> label_values) override;
  void forget(std::string_view label, std::string_view value) override;

  const std::string& name() const { return name_; }
  Kind kind() const { return kind_; }
  const std::string& help() const { return help_; }
  const std::vector<std::string>& labels() const { return labels_; }
  const std::vector<TwinView>& twins() const { return twins_; }

  /// The exposed series with their label values. Both stay valid and unchanged as long as the
  /// family.
  std::vector<std::pair<const Labels*, const Series*>> exposed() const;

 private:
  struct Entry {
    std::unique_ptr<Series> series;
    bool exposed = true;
  };

  Series* find_or_add(std::span<const std::string_view> label_values);

  const std::string name_;
  const Kind kind_;
  const std::string help_;
  const std::vector<std::string> labels_;
  const std::vector<double> bounds_;
  std::vector<TwinView> twins_;
  const size_t cells_;

  mutable SharedMutex mutex_;
  std::unordered_map<Labels, Entry, LabelsHash, LabelsEqual> series_ LLMD_GUARDED_BY(mutex_);
};

}  // namespace llmd::metric
