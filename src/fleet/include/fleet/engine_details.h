#pragma once

#include "base/mutex.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace llmd::fleet {

/// What a model server's page says beyond the numbers of EndpointMetrics: lists, and numbers that
/// the configuration names.
struct EngineDetails {
  std::vector<std::string> running_adapters;  // LoRA adapters, as listed
  std::vector<std::string> waiting_adapters;
  std::vector<std::pair<std::string, double>> custom;  // attribute key and value, as configured

  bool operator==(const EngineDetails&) const = default;
};

/// The details as last scraped. Threading: any; store() from the scrape thread. Cost: a lock.
class DetailsSlot {
 public:
  /// Never null.
  std::shared_ptr<const EngineDetails> load() const {
    const MutexLock lock(mutex_);
    return details_;
  }
  void store(std::shared_ptr<const EngineDetails> details) {
    const MutexLock lock(mutex_);
    details_ = std::move(details);
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const EngineDetails> details_ LLMD_GUARDED_BY(mutex_) =
      std::make_shared<const EngineDetails>();
};

}  // namespace llmd::fleet
