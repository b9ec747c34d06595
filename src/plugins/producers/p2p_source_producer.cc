#include "p2p_source.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using schedule::PrefixMatch;
using schedule::RequestContext;

struct Params {
  std::string producer = "approx-prefix-cache-producer";
  int64_t delta_min = 1;
  std::string prefill = "prefill";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("prefixMatchInfoProducerName", &Params::producer, "",
                    "Producer of the prefix matches."),
      plugin::field("minCachedTokenDelta", &Params::delta_min, "tokens",
                    "So much more must the source have cached than the endpoint that computes.")
          .min(1),
      plugin::field("prefillProfileName", &Params::prefill, "",
                    "Profile that picks where the prompt is processed."),
  };
  return params;
}

int64_t cached_tokens(const PrefixMatch& match) {
  return match.cached_blocks * match.block_tokens;
}

/// What others can fetch: engines serve it from host memory. All that is cached, where tiers are
/// not known.
int64_t fetchable_tokens(const PrefixMatch& match) {
  return match.cached ? match.cached->by_tier.in("cpu") * match.block_tokens : cached_tokens(match);
}

/// Names, for an endpoint that has to process a prompt, another one that has most of it to give.
class P2pSourceProducer final : public schedule::Producer, public schedule::PreRequest {
 public:
  P2pSourceProducer(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    matches_ = wiring.consumes<PrefixMatch>(params_.producer, schedule::Need::kRequired);
    source_ = wiring.request_slot<Source>();
    prefill_ = wiring.profile(params_.prefill);
  }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    context.slot(source_) = choose(context);
    return schedule::Progress::kDone;
  }

  Status pre_request(RequestContext& context) const override {
    const Source source = context.slot(source_);
    if (!source.known) return {};
    const bool apart =
        prefill_ < context.results.size() && !context.results[prefill_].targets.empty();
    const uint32_t computing = context.results[apart ? prefill_ : context.primary].targets[0];
    if (computing == source.candidate) return {};
    const auto matches = context.read(matches_);
    if (fetchable_tokens(matches[source.candidate]) - cached_tokens(matches[computing]) >=
        params_.delta_min)
      context.request_headers.set("x-kv-cache-source-host-port",
                                  context.candidates[source.candidate].endpoint->host_port());
    return {};
  }

 private:
  struct Source {
    bool known = false;
    uint32_t candidate = 0;
  };

  /// Among those that lack at most a block of the most that anyone offers, one by the request's id,
  /// those with short queues more often.
  Source choose(const RequestContext& context) const {
    const auto matches = context.read(matches_);
    int64_t most = 0;
    for (const auto& match : matches) most = std::max(most, fetchable_tokens(match));
    if (most == 0) return {};
    const auto weight = [&](size_t i) {
      const int64_t cached = fetchable_tokens(matches[i]);
      if (cached == 0 || cached + matches[i].block_tokens < most) return 0.0;
      const auto waiting = context.candidates[i].metrics.waiting_queue_size;
      return 1 / (1 + static_cast<double>(std::max<int64_t>(0, waiting)));
    };
    double sum = 0;
    for (size_t i = 0; i < matches.size(); ++i) sum += weight(i);
    double left = unit_of(context.request_id) * sum;
    Source last;
    for (uint32_t i = 0; i < matches.size(); ++i) {
      const double share = weight(i);
      if (share == 0) continue;
      last = {.known = true, .candidate = i};
      if (left < share) break;
      left -= share;
    }
    return last;
  }

  const Params params_;
  schedule::Consumed<PrefixMatch> matches_;
  schedule::RequestSlot<Source> source_;
  uint16_t prefill_ = UINT16_MAX;
};

}  // namespace

const plugin::Descriptor& p2p_source_producer() {
  static const auto descriptor = plugin::describe<P2pSourceProducer>(
      {.type = "p2p-source-producer",
       .kind = "producer",
       .summary = "Names by header the endpoint from which cached blocks of the prompt can be "
                  "fetched.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
