#pragma once

#include "base/mutex.h"
#include "fleet/endpoint.h"
#include "metric/registry.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmd::kv_precise {

/// Whether endpoints reuse as many tokens of a prompt as the index promised for it. An endpoint
/// that keeps reusing less loses trust: what is known of it is wrong, so that it has to be
/// forgotten.
///
/// Of the last promises, the older the less they count (kMemory), more than kBrokenMax of the
/// tokens broken costs the trust; less than kKeptMax among those made since gives it back. Engines
/// compute the last block of a prompt again even if they have it, and report none where nothing was
/// reused: a block less is no broken promise, and an endpoint that has ever reported reports
/// always. Threading: any.
class PromiseBook final : public fleet::MembershipListener {
 public:
  static constexpr double kMemory = 1 - 1.0 / 32;
  static constexpr double kBrokenMax = 0.25;
  static constexpr double kKeptMax = 0.05;
  /// Promises after which an endpoint is judged.
  static constexpr uint32_t kPromisesMin = 16;

  explicit PromiseBook(metric::Registry& registry);

  void on_added(const fleet::EndpointPtr& endpoint) override;
  void on_removed(const fleet::EndpointPtr& endpoint) override;

  struct Outcome {
    int64_t promised = 0;                  // tokens
    std::optional<int64_t> reported = {};  // tokens; none: the answer does not say
    int64_t slack = 0;                     // tokens that may be missing
  };
  /// An answer has come to its end. True: what is known of the endpoint is not to be relied on; the
  /// next judgement comes after as many promises again.
  bool note(const fleet::Endpoint& endpoint, const Outcome& outcome);

  /// Cost: a lock while an endpoint is not trusted, or else an atomic read.
  bool trusted(const fleet::Endpoint& endpoint) const;

  struct State {
    std::string endpoint;  // id
    bool trusted = true;
    double promised = 0;  // tokens, the older the less
    double broken = 0;
  };
  /// Endpoints that have been promised something, by slot.
  std::vector<State> states() const;

 private:
  struct Account {
    fleet::EndpointPtr endpoint;
    bool reports = false;
    bool trusted = true;
    uint32_t promises = 0;  // since the last judgement
    double promised = 0;
    double broken = 0;
    metric::Counter promised_total, reported_total, over_total, under_total;
    metric::Gauge trusted_gauge;
  };
  Account* account_of(const fleet::Endpoint& endpoint) LLMD_REQUIRES(mutex_);

  metric::Family& promised_;
  metric::Family& reported_;
  metric::Family& over_;
  metric::Family& under_;
  metric::Family& trusted_;
  std::atomic<size_t> distrusted_{0};
  mutable Mutex mutex_;
  std::map<uint32_t, Account> accounts_ LLMD_GUARDED_BY(mutex_);  // by slot
  std::shared_ptr<void> collector_;
};

}  // namespace llmd::kv_precise
