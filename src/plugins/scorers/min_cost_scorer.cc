#include "speed_book.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <limits>

namespace llmd::plugins {
namespace {

using schedule::InFlightLoad;
using schedule::RequestContext;
using schedule::UncachedTokens;

/// The first token of shorter prompts tells more about the network than about the speed.
constexpr double kPromptTokensToLearnFrom = 256;
constexpr double kOutputTokensToLearnFrom = 8;

struct Params {
  std::string producer = "inflight-load-producer";
  std::string matches = "approx-prefix-cache-producer";
  int64_t output_tokens = 256;
  double decode_token_cost = 2;
  Nanos metrics_staleness = std::chrono::seconds(5);
  Nanos fade = std::chrono::seconds(60);
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("inFlightLoadProducerName", &Params::producer, "",
                    "Producer of the load in flight and of what the request would add."),
      plugin::field("prefixMatchInfoProducerName", &Params::matches, "",
                    "Producer of the prefix matches; the same as of the producer of the load."),
      plugin::field("expectedOutputTokens", &Params::output_tokens, "tokens",
                    "Length of an answer until answers have been seen.")
          .min(1),
      plugin::field("decodeTokenCost", &Params::decode_token_cost, "tokens",
                    "To generate a token costs as much as to process so many of a prompt.")
          .positive(),
      plugin::field("metricsStalenessThreshold", &Params::metrics_staleness, "",
                    "Scraped numbers that are older are not used; what this router itself has "
                    "sent is always known.")
          .positive(),
      plugin::field("speedHalfLife", &Params::fade, "",
                    "After so long without answers an endpoint's learnt speed counts half.")
          .positive(),
  };
  return params;
}

/// Estimates when each endpoint would have finished the request, in tokens of prompt that an
/// average endpoint processes in that time:
///
///   prefill slowness × (uncached tokens of the request + prompt tokens that wait before it)
///   + decode slowness × decodeTokenCost × (tokens that the requests there, and this one, generate)
///
/// Prompt tokens and requests come from the ledger of this router. Where fresh metrics show more
/// requests than the ledger knows, others have sent them, and they count as average ones.
class MinCostScorer final : public schedule::Scorer,
                            public schedule::PreRequest,
                            public schedule::ResponseHook {
 public:
  MinCostScorer(Params p, const plugin::Context& context)
      : params_(std::move(p)),
        book_(context.state.get<SpeedBook>(context.name, [] { return new SpeedBook; })) {}

  void wire(schedule::Wiring& wiring) override {
    load_ = wiring.consumes<InFlightLoad>(params_.producer, schedule::Need::kRequired);
    uncached_ = wiring.consumes<UncachedTokens>(params_.producer, schedule::Need::kRequired);
    // Read by the producer of the load, which does without if there is none.
    wiring.consumes<schedule::PrefixMatch>(params_.matches, schedule::Need::kRequired);
    sent_ = wiring.request_slot<Sent>();
    wiring.listen(book_);
  }

  void score(RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const Averages mean = averages(context);
    double least = std::numeric_limits<double>::infinity();
    for (size_t k = 0; k < selected.size(); ++k) {
      scores[k] = cost(context, selected[k], mean);
      least = std::min(least, scores[k]);
    }
    for (double& score : scores) score = least / score;
  }

  Status pre_request(RequestContext& context) const override {
    const uint32_t target = context.results[context.primary].targets[0];
    const auto load = context.read(load_);
    const auto uncached = context.read(uncached_);
    const double own = uncached.empty() ? 0 : static_cast<double>(uncached[target].tokens);
    const double ahead = load.empty() ? 0 : static_cast<double>(load[target].tokens);
    context.slot(sent_) = {.at = context.clock.now(), .prompt_tokens = own + ahead};
    if (!uncached.empty()) book_->learn_request(own);
    return {};
  }

  /// Only of a stream: the first chunk of another answer comes when all of it has been generated.
  void on_first_chunk(RequestContext& context) const override {
    if (!context.request || !context.request->stream) return;
    auto& sent = context.slot(sent_);
    sent.first_chunk = context.clock.now();
    const double took = seconds(sent.first_chunk - sent.at);
    if (sent.prompt_tokens >= kPromptTokensToLearnFrom && took > 0)
      book_->learn(SpeedBook::kPrefill, context.target(), took / sent.prompt_tokens,
                   sent.first_chunk);
  }

  void on_end(RequestContext& context, schedule::EndCause cause,
              const request::Usage& usage) const override {
    const auto& sent = context.slot(sent_);
    const auto tokens = static_cast<double>(usage.completion_tokens);
    if (cause != schedule::EndCause::kNatural || !usage.present || tokens < 1) return;
    book_->learn_answer(tokens);
    const TimePoint now = context.clock.now();
    const double took = seconds(now - sent.first_chunk);
    const bool streamed = sent.first_chunk != TimePoint{} && took > 0;
    if (streamed && tokens >= kOutputTokensToLearnFrom)
      book_->learn(SpeedBook::kDecode, context.target(), took / (tokens - 1), now);
  }

 private:
  struct Sent {
    TimePoint at{};
    TimePoint first_chunk{};
    double prompt_tokens = 0;  // its own uncached ones and those that were waiting before it
  };

  /// What holds for all candidates of a decision.
  struct Averages {
    TimePoint now;
    double prompt;      // uncached tokens of a request
    double output;      // tokens of an answer
    double own_output;  // of this request's answer, at most
  };

  Averages averages(const RequestContext& context) const {
    const double learnt = book_->output_tokens();
    const double output = learnt > 0 ? learnt : static_cast<double>(params_.output_tokens);
    double own = output;
    if (context.request && context.request->max_output_tokens)
      own = std::min(own, static_cast<double>(*context.request->max_output_tokens));
    return {context.clock.now(), book_->uncached_tokens(), output, std::max(1.0, own)};
  }

  double cost(const RequestContext& context, uint32_t i, const Averages& mean) const {
    const auto& candidate = context.candidates[i];
    const auto& metrics = candidate.metrics;
    const auto load = context.read(load_);
    const auto uncached = context.read(uncached_);
    double prefill = uncached.empty() ? 0 : static_cast<double>(uncached[i].tokens);
    double requests = 0;
    if (!load.empty()) {
      prefill += static_cast<double>(std::max<int64_t>(0, load[i].tokens));
      requests = static_cast<double>(std::max<int64_t>(0, load[i].requests));
    }
    if (metrics.ever_updated() && mean.now - metrics.updated <= params_.metrics_staleness) {
      const auto waiting = static_cast<double>(metrics.waiting_queue_size);
      const double all = waiting + static_cast<double>(metrics.running_requests_size);
      const double others = std::max(0.0, all - requests);
      prefill += std::min(waiting, others) * mean.prompt;
      requests += others;
    }
    const double decode = params_.decode_token_cost * (requests * mean.output + mean.own_output);
    const auto slowness = [&](SpeedBook::Kind kind) {
      return book_->slowness(kind, *candidate.endpoint, mean.now, params_.fade);
    };
    return slowness(SpeedBook::kPrefill) * prefill + slowness(SpeedBook::kDecode) * decode;
  }

  const Params params_;
  const std::shared_ptr<SpeedBook> book_;
  schedule::Consumed<InFlightLoad> load_;
  schedule::Consumed<UncachedTokens> uncached_;
  schedule::RequestSlot<Sent> sent_;
};

}  // namespace

const plugin::Descriptor& min_cost_scorer() {
  static const auto descriptor = plugin::describe<MinCostScorer>(
      {.type = "min-cost-scorer",
       .kind = "scorer",
       .summary = "Prefers the endpoint that is expected to finish first: uncached prompt, prompts "
                  "that wait, and answers under way, weighted with learnt speeds. The best scores "
                  "1, one that takes twice as long 0.5."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
