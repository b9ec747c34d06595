#include "program_services.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace llmd::plugins {

double Program::mean_wait_ms() const {
  const MutexLock lock(mutex_);
  return mean_wait_ms_;
}

void Program::begin(Nanos waited) {
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  mean_wait_ms_ += (millis(waited) - mean_wait_ms_) / static_cast<double>(++requests_);
}

void Program::end(double cost, TimePoint now, Nanos half_life) {
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  double kept = service();
  if (touched_ != TimePoint())
    kept *= std::exp2(-(now - touched_) / std::chrono::duration<double>(half_life));
  touched_ = now;
  service_.store(kept + cost, std::memory_order_relaxed);
}

bool Program::forgotten(TimePoint before) const {
  const MutexLock lock(mutex_);
  return in_flight() == 0 && touched_ < before;
}

std::shared_ptr<Program> ProgramServices::find_or_add(std::string_view id) {
  {
    const ReaderLock lock(mutex_);
    if (const auto found = programs_.find(id); found != programs_.end()) return found->second;
  }
  const WriterLock lock(mutex_);
  auto& slot = programs_[std::string(id)];
  if (!slot) slot = std::make_shared<Program>();
  return slot;
}

void ProgramServices::sweep(TimePoint now, Nanos interval, Nanos ttl) {
  const int64_t at = now.time_since_epoch().count();
  int64_t next = next_sweep_.load(std::memory_order_relaxed);
  if (at < next || !next_sweep_.compare_exchange_strong(next, at + interval.count())) return;
  const WriterLock lock(mutex_);
  // What a queue or a request holds is used.
  boost::unordered::erase_if(programs_, [&](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->forgotten(now - ttl);
  });
}

std::string ProgramServices::dump() const {
  std::vector<double> services;
  int64_t in_flight = 0;
  const ReaderLock lock(mutex_);
  for (const auto& [id, program] : programs_) {
    services.push_back(program->service());
    in_flight += program->in_flight();
  }
  return fmt::format(R"({{"totalPrograms":{},"totalInFlight":{},"fairnessIndex":{:.6f}}})",
                     services.size(), in_flight, jain_index(services));
}

double jain_index(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  if (values.size() <= 1 || squares == 0) return 1;
  return sum * sum / (static_cast<double>(values.size()) * squares);
}

}  // namespace llmd::plugins
