#include "inflight_loads.h"

#include "base/log.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <array>

namespace llmd::plugins {
namespace {

using schedule::Candidate;
using schedule::InFlightLoad;

enum class Mode : uint8_t { kRequests, kTokens, kHybrid };
constexpr std::array<std::string_view, 3> kModes = {"requests", "tokens", "hybrid"};  // by Mode

struct Params {
  int64_t requests_max = 100;
  int64_t tokens_max = 1'000'000;
  double headroom = 0;
  std::string mode = "requests";
  std::string producer = "inflight-load-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("maxConcurrency", &Params::requests_max, "requests",
                    "Requests in flight that make an endpoint full.")
          .min(0),
      plugin::field("maxTokenConcurrency", &Params::tokens_max, "tokens",
                    "Uncached tokens in flight that make an endpoint full.")
          .min(0),
      plugin::field("concurrencyMode", &Params::mode, "",
                    "What is counted; hybrid: of each endpoint whichever is fuller.")
          .one_of({kModes.begin(), kModes.end()}),
      plugin::field("headroom", &Params::headroom, "",
                    "As a filter: by which fraction endpoints may exceed the limits.")
          .min(0),
      plugin::field("inFlightLoadProducerName", &Params::producer, "",
                    "Producer of the load in flight."),
  };
  return params;
}

double share(int64_t load, int64_t capacity) {
  return static_cast<double>(load) / static_cast<double>(capacity);
}

class ConcurrencyDetector final : public schedule::SaturationDetector, public schedule::Filter {
 public:
  ConcurrencyDetector(Params p, const plugin::Context& context)
      : requests_max_(p.requests_max),
        tokens_max_(p.tokens_max),
        requests_limit_(limit(p.requests_max, p.headroom)),
        tokens_limit_(limit(p.tokens_max, p.headroom)),
        mode_(static_cast<Mode>(std::ranges::find(kModes, p.mode) - kModes.begin())),
        producer_(std::move(p.producer)),
        loads_(InflightLoads::of(producer_, context)) {
    if (p.headroom > 1)
      log::warn("headroom above 1 lets endpoints exceed the limits more than twofold",
                {{"plugin", context.name}, {"headroom", p.headroom}});
  }

  void wire(schedule::Wiring& wiring) override {
    load_ = wiring.consumes<InFlightLoad>(producer_, schedule::Need::kRequired);
  }

  /// Loads are summed up as whole numbers, so that a pool is saturated exactly when it is full.
  double saturation(std::span<const Candidate> candidates, TimePoint) const override {
    fleet::Ledger::Load all;
    double fuller = 0;
    int64_t endpoints = 0;
    for (const auto& candidate : candidates) {
      if (candidate.endpoint == nullptr) continue;
      const auto load = loads_->ledger.load(candidate.slot, candidate.generation);
      all.requests += load.requests;
      all.tokens += load.tokens;
      if (mode_ == Mode::kHybrid)
        fuller += std::max(share(load.requests, requests_max_), share(load.tokens, tokens_max_));
      ++endpoints;
    }
    if (endpoints == 0 || !has_capacity()) return 1.0;
    const auto n = static_cast<double>(endpoints);
    if (mode_ == Mode::kHybrid) return fuller / n;
    return counts_requests() ? share(all.requests, requests_max_) / n
                             : share(all.tokens, tokens_max_) / n;
  }

  double step(size_t endpoints, int64_t prompt_tokens) const override {
    if (endpoints == 0 || !has_capacity()) return 0;
    return std::max(counts_requests() ? share(1, requests_max_) : 0,
                    counts_tokens() ? share(prompt_tokens, tokens_max_) : 0) /
           static_cast<double>(endpoints);
  }

  bool follows_requests() const override { return true; }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const auto load = context.read(load_);
    if (load.empty()) return selected.size();
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (has_room(load[i])) selected[kept++] = i;
    return kept;
  }

 private:
  static int64_t limit(int64_t capacity, double headroom) {
    // Beyond this no load tells limits apart, and the conversion stays exact.
    constexpr double kMost = 0x1p53;
    return static_cast<int64_t>(std::min(static_cast<double>(capacity) * (1 + headroom), kMost));
  }

  bool counts_requests() const { return mode_ != Mode::kTokens; }
  bool counts_tokens() const { return mode_ != Mode::kRequests; }
  bool has_capacity() const {
    return (!counts_requests() || requests_max_ > 0) && (!counts_tokens() || tokens_max_ > 0);
  }

  bool has_room(const InFlightLoad& load) const {
    return (!counts_requests() || load.requests < requests_limit_) &&
           (!counts_tokens() || load.tokens < tokens_limit_);
  }

  const int64_t requests_max_;
  const int64_t tokens_max_;
  const int64_t requests_limit_;
  const int64_t tokens_limit_;
  const Mode mode_;
  const std::string producer_;
  const std::shared_ptr<InflightLoads> loads_;
  schedule::Consumed<InFlightLoad> load_;
};

}  // namespace

const plugin::Descriptor& concurrency_detector() {
  static const auto descriptor = plugin::describe<ConcurrencyDetector>(
      {.type = "concurrency-detector",
       .kind = "saturation detector",
       .summary = "The pool is as full as what this router has in flight there, requests or tokens "
                  "or whichever is more, by the endpoints' limits; as a filter it drops full "
                  "endpoints, and refuses the request when all are."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
