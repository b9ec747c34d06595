#include "family.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::metric {
namespace {

thread_local size_t this_thread_cell = 0;

/// A thread whose cell lies outside this registry shares cell 0.
size_t own_cell(const Series& series) {
  return this_thread_cell < series.cells() ? this_thread_cell : 0;
}

std::vector<std::string> copies(const std::vector<std::string_view>& texts) {
  return {texts.begin(), texts.end()};
}

}  // namespace

void set_thread_cell(size_t cell) {
  this_thread_cell = cell;
}
size_t thread_cell() {
  return this_thread_cell;
}

void Counter::add(double n) const {
  if (series_ == nullptr) return;
  series_->add(own_cell(*series_), 0, n);
}

void Gauge::add(double n) const {
  if (series_ == nullptr) return;
  series_->add(own_cell(*series_), 0, n);
}

void Gauge::set(double v) const {
  if (series_ == nullptr) return;
  series_->set(v);
}

void Histogram::observe(double v) const {
  if (series_ == nullptr) return;
  const auto bounds = series_->bounds();
  // The negation sends NaN to the last bucket, where no bound is at least as large.
  const auto bucket =
      std::ranges::partition_point(bounds, [v](double bound) { return !(v <= bound); });
  const size_t cell = own_cell(*series_);
  series_->add(cell, 1 + static_cast<size_t>(bucket - bounds.begin()), 1);
  series_->add(cell, 0, v);
}

FamilyImpl::FamilyImpl(const Definition& definition, size_t cells)
    : name_(definition.name),
      kind_(definition.kind),
      help_(definition.help),
      labels_(copies(definition.labels)),
      bounds_(definition.buckets.begin(), definition.buckets.end()),
      cells_(cells) {
  for (const auto& twin : definition.twins) {
    TwinView view{std::string(twin.name), {}, {}};
    for (const auto& [old_label, canonical] : twin.labels) {
      const auto at = std::ranges::find(labels_, canonical);
      CHECK(at != labels_.end());
      view.labels.emplace_back(old_label);
      view.from.push_back(static_cast<size_t>(at - labels_.begin()));
    }
    twins_.push_back(std::move(view));
  }
}

Counter FamilyImpl::counter(std::span<const std::string_view> label_values) {
  CHECK(kind_ == Kind::kCounter);
  return make_counter(find_or_add(label_values));
}

Gauge FamilyImpl::gauge(std::span<const std::string_view> label_values) {
  CHECK(kind_ == Kind::kGauge);
  return make_gauge(find_or_add(label_values));
}

Histogram FamilyImpl::histogram(std::span<const std::string_view> label_values) {
  CHECK(kind_ == Kind::kHistogram);
  return make_histogram(find_or_add(label_values));
}

Series* FamilyImpl::find_or_add(std::span<const std::string_view> label_values) {
  CHECK(label_values.size() == labels_.size());
  {
    const ReaderLock lock(mutex_);
    const auto found = series_.find(label_values);
    if (found != series_.end() && found->second.exposed) return found->second.series.get();
  }
  const WriterLock lock(mutex_);
  auto& entry = series_[Labels(label_values.begin(), label_values.end())];
  if (!entry.series)
    entry.series = std::make_unique<Series>(cells_, bounds_, kind_ == Kind::kHistogram);
  entry.exposed = true;
  return entry.series.get();
}

void FamilyImpl::forget(std::string_view label, std::string_view value) {
  const auto at = std::ranges::find(labels_, label);
  CHECK(at != labels_.end());
  const auto index = static_cast<size_t>(at - labels_.begin());
  const WriterLock lock(mutex_);
  for (auto& [labels, entry] : series_)
    if (labels[index] == value) entry.exposed = false;
}

std::vector<std::pair<const Labels*, const Series*>> FamilyImpl::exposed() const {
  std::vector<std::pair<const Labels*, const Series*>> out;
  const ReaderLock lock(mutex_);
  out.reserve(series_.size());
  for (const auto& [labels, entry] : series_)
    if (entry.exposed) out.emplace_back(&labels, entry.series.get());
  return out;
}

}  // namespace llmd::metric
