#include "inflight_loads.h"
#include "request_tokens.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/moved_hook.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace llmd::plugins {
namespace {

using schedule::InFlightLoad;
using schedule::PrefixMatch;
using schedule::RequestContext;
using schedule::UncachedTokens;

struct Params {
  bool add_output = false;
  double output_ratio = 1.5;
  std::optional<int64_t> output_max;
  std::string producer = "approx-prefix-cache-producer";
  bool sync = true;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("addEstimatedOutputTokens", &Params::add_output, "",
                    "Charge the expected output too, until the end of the response."),
      plugin::field("outputRatio", &Params::output_ratio, "",
                    "Expected output tokens per input token.")
          .min(0),
      plugin::field("maxEstimatedOutputTokens", &Params::output_max, "tokens",
                    "Cap of the expected output.")
          .min(0),
      plugin::field("prefixMatchInfoProducerName", &Params::producer, "",
                    "Producer that tells which tokens are cached."),
      plugin::field("syncCrossReplicaState", &Params::sync, "",
                    "Share the ledger with other replicas where a syncer is configured."),
  };
  return params;
}

class InflightLoadProducer final : public schedule::Producer,
                                   public schedule::PreRequest,
                                   public schedule::ResponseHook,
                                   public schedule::MovedHook {
 public:
  InflightLoadProducer(Params p, const plugin::Context& context)
      : params_(std::move(p)), state_(InflightLoads::of(context.name, context)) {}

  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
    matches_ = wiring.consumes<PrefixMatch>(params_.producer, schedule::Need::kOptional);
    load_ = wiring.produces<InFlightLoad>();
    uncached_ = wiring.produces<UncachedTokens>();
    debts_ = wiring.request_slot<std::span<Debt>>();
    prefill_ = wiring.prefill_profile();
    wiring.listen(state_);
  }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    const auto load = context.write_all(load_);
    const auto uncached = context.write_all(uncached_);
    const auto matches = context.read(matches_);
    const int64_t input = request_tokens(context);
    const int64_t output = output_tokens(context, input);
    for (size_t i = 0; i < load.size(); ++i) {
      const auto& candidate = context.candidates[i];
      const auto now = state_->ledger.load(candidate.slot, candidate.generation);
      load[i] = {.tokens = now.tokens, .requests = now.requests};
    }
    if (matches.empty()) {
      std::ranges::fill(uncached, UncachedTokens{input + output});
      return schedule::Progress::kDone;
    }
    for (size_t i = 0; i < uncached.size(); ++i)
      uncached[i].tokens = uncached_of(matches[i], input) + output;
    return schedule::Progress::kDone;
  }

  Status pre_request(RequestContext& context) const override {
    const auto debts = context.arena.array<Debt>(context.results.size());
    for (size_t p = 0; p < debts.size(); ++p)
      if (const auto targets = context.results[p].targets; !targets.empty())
        charge(context, debts[p], targets[0]);
    context.slot(debts_) = debts;
    return {};
  }

  void on_moved(RequestContext& context) const override {
    Debt& debt = context.slot(debts_)[context.primary];
    settle(debt);
    charge(context, debt, context.results[context.primary].targets[0]);
  }

  /// The prompt has been processed: what is left is decoding, and the expected output if charged.
  void on_first_chunk(RequestContext& context) const override {
    const auto debts = context.slot(debts_);
    for (size_t p = 0; p < debts.size(); ++p) {
      if (p == prefill_)
        settle(debts[p]);
      else if (!params_.add_output)
        settle_tokens(debts[p]);
    }
  }

  void on_end(RequestContext& context, schedule::EndCause, const request::Usage&) const override {
    for (auto& debt : context.slot(debts_)) settle(debt);
  }

  /// Endpoints with load, the busiest first.
  std::string dump_state() const override {
    auto loads = state_->ledger.dump();
    std::ranges::stable_sort(loads, std::ranges::greater(), [](const auto& entry) {
      return std::pair(entry.second.requests, entry.second.tokens);
    });
    std::string out = R"({"endpoints":[)";
    for (size_t i = 0; i < std::min(loads.size(), kDumpMax); ++i) {
      out += i > 0 ? R"(,{"endpoint":")" : R"({"endpoint":")";
      append_json_escaped(out, loads[i].first);
      out += R"(","requests":)" + std::to_string(loads[i].second.requests) + R"(,"tokens":)" +
             std::to_string(loads[i].second.tokens) + "}";
    }
    return out + R"(],"totalEndpoints":)" + std::to_string(loads.size()) + R"(,"maxEndpoints":)" +
           std::to_string(kDumpMax) + R"(,"truncated":)" +
           (loads.size() > kDumpMax ? "true" : "false") + "}";
  }

 private:
  static constexpr size_t kDumpMax = 100;

  /// One profile's charge, and the gauges that show it.
  struct Debt {
    uint32_t target = 0;  // candidate
    fleet::Charge charge;
    metric::Gauge requests;
    metric::Gauge tokens;
  };

  int64_t output_tokens(const RequestContext& context, int64_t input) const {
    if (!params_.add_output) return 0;
    // Beyond this no cap or queue tells sizes apart, and the conversion stays exact.
    constexpr double kMost = 0x1p53;
    const double expected = std::round(static_cast<double>(input) * params_.output_ratio);
    auto tokens = static_cast<int64_t>(std::min(expected, kMost));
    if (context.request && context.request->max_output_tokens)
      tokens = std::min(tokens, *context.request->max_output_tokens);
    return params_.output_max ? std::min(tokens, *params_.output_max) : tokens;
  }

  int64_t estimate(const RequestContext& context) const {
    const int64_t input = request_tokens(context);
    return input + output_tokens(context, input);
  }

  /// Blocks that are not cached count whole, and so does what was not hashed. The weighted match is
  /// for ranking: a block in host memory is worth less and still not computed again.
  static int64_t uncached_of(const PrefixMatch& match, int64_t input) {
    if (match.block_tokens <= 0) return input;
    const int64_t missing = match.total_blocks - match.cached_blocks;
    const int64_t hashed = match.total_blocks * match.block_tokens;
    return std::max<int64_t>(0, missing * match.block_tokens) +
           std::max<int64_t>(0, input - hashed);
  }

  void charge(RequestContext& context, Debt& debt, uint32_t target) const {
    const auto uncached = context.read(uncached_);
    const int64_t tokens = uncached.empty() ? estimate(context) : uncached[target].tokens;
    const auto& endpoint = *context.candidates[target].endpoint;
    debt.target = target;
    debt.charge = state_->ledger.charge(endpoint, 1, tokens);
    show(debt, endpoint, context);
  }

  void show(Debt& debt, const fleet::Endpoint& endpoint, const RequestContext& context) const {
    if (!debt.charge.account) return;
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, context.priority).ptr;
    const std::string_view priority(digits, static_cast<size_t>(end - digits));
    const std::array<std::string_view, 5> labels = {
        endpoint.spec().name, endpoint.spec().ns, name(),
        state_->fairness.admit(context.fairness_id), priority};
    debt.requests = state_->requests.gauge(labels);
    debt.tokens = state_->tokens.gauge(labels);
    debt.requests.add(static_cast<double>(debt.charge.requests));
    debt.tokens.add(static_cast<double>(debt.charge.tokens));
  }

  void settle_tokens(Debt& debt) const {
    if (debt.charge.tokens > 0) debt.tokens.add(-static_cast<double>(debt.charge.tokens));
    state_->ledger.release_tokens(debt.charge);
  }

  void settle(Debt& debt) const {
    settle_tokens(debt);
    if (debt.charge.requests > 0) debt.requests.add(-static_cast<double>(debt.charge.requests));
    state_->ledger.release(debt.charge);
  }

  const Params params_;
  const std::shared_ptr<InflightLoads> state_;
  schedule::Consumed<PrefixMatch> matches_;
  schedule::Produced<InFlightLoad> load_;
  schedule::Produced<UncachedTokens> uncached_;
  schedule::RequestSlot<std::span<Debt>> debts_;
  uint16_t prefill_ = UINT16_MAX;
};

}  // namespace

const plugin::Descriptor& inflight_load_producer() {
  static const auto descriptor = plugin::describe<InflightLoadProducer>(
      {.type = "inflight-load-producer",
       .kind = "producer",
       .summary = "Keeps a ledger of the requests and tokens that this router has sent to each "
                  "endpoint.",
       .produces_by_default = {"InFlightLoadDataKey/inflight-load-producer",
                               "UncachedRequestTokensDataKey/inflight-load-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
