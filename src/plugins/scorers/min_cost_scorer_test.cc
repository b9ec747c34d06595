#include "schedule/attributes.h"
#include "schedule/testing.h"
#include "scorers/speed_book.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& min_cost_scorer();

namespace {

using schedule::EndCause;
using schedule::InFlightLoad;
using schedule::PreRequest;
using schedule::ResponseHook;
using schedule::Scorer;
using schedule::UncachedTokens;
using schedule::testing::Harness;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kProducer = "inflight-load-producer";

/// What the router knows of an endpoint when a request arrives.
struct State {
  int64_t uncached = 0;  // tokens of the request
  int64_t pending = 0;   // tokens of others' prompts
  int64_t requests = 0;  // in flight
};

class MinCost : public ::testing::Test {
 protected:
  explicit MinCost(size_t count = 2) : harness_(count) { harness_.clock.advance(seconds(1000)); }

  void configure(std::string_view parameters = "") {
    scorer_ = &harness_.make<Scorer>(min_cost_scorer(), parameters);
    for (size_t i = 0; i < harness_.endpoints.size(); ++i) harness_.join(i);
  }
  void request(const std::vector<State>& states) {
    harness_.fresh_request();
    const auto load = harness_.provide<InFlightLoad>(kProducer);
    const auto uncached = harness_.provide<UncachedTokens>(kProducer);
    for (size_t i = 0; i < states.size(); ++i) {
      load[i] = {.tokens = states[i].pending, .requests = states[i].requests};
      uncached[i].tokens = states[i].uncached;
    }
  }
  /// The costs as multiples of the least one.
  std::vector<double> costs(const std::vector<State>& states) {
    request(states);
    auto out = harness_.scores(*scorer_);
    for (double& score : out) score = 1 / score;
    return out;
  }
  double ratio(State a, State b) {
    const auto both = costs({a, b});
    return both[0] / both[1];
  }
  /// A request of `prompt` tokens that `target` answers: the first token after `ttft`, then
  /// `tokens` - 1 more, one every `itl`.
  void serve(uint32_t target, int64_t prompt, Nanos ttft, int64_t tokens, Nanos itl,
             EndCause cause = EndCause::kNatural) {
    request({{.uncached = prompt}, {.uncached = prompt}});
    request::RequestView view;
    view.stream = streams_;
    harness_.context.request = &view;
    harness_.choose(0, target);
    EXPECT_TRUE(dynamic_cast<const PreRequest*>(scorer_)->pre_request(harness_.context));
    const auto& hook = dynamic_cast<const ResponseHook&>(*scorer_);
    harness_.clock.advance(ttft);
    hook.on_first_chunk(harness_.context);
    harness_.clock.advance(itl * (tokens - 1));
    request::Usage usage;
    usage.completion_tokens = tokens;
    usage.present = true;
    hook.on_end(harness_.context, cause, usage);
    harness_.context.request = nullptr;
  }

  Harness harness_;
  const Scorer* scorer_ = nullptr;
  bool streams_ = true;
};

/// The table of docs/scheduling.md. Answers of 256 tokens at the cost of 2 are 512 a request.
TEST_F(MinCost, AddsUpWhatHasToBeDone) {
  configure();
  const struct {
    State a, b;
    double costs_a, costs_b;
  } kCases[] = {
      {{0, 0, 0}, {0, 0, 0}, 512, 512},
      {{1000, 0, 0}, {0, 0, 0}, 1512, 512},
      {{0, 0, 1}, {0, 0, 0}, 1024, 512},
      {{100, 0, 2}, {2000, 0, 0}, 1636, 2512},      // a hit is worth its saved prefill …
      {{100, 9000, 4}, {8000, 0, 0}, 11660, 8512},  // … and no more
      {{500, 700, 3}, {900, 0, 1}, 3248, 1924},
  };
  for (const auto& c : kCases)
    EXPECT_NEAR(ratio(c.a, c.b), c.costs_a / c.costs_b, 1e-12) << c.costs_a << " " << c.costs_b;
}

TEST_F(MinCost, ScoresTheBestOneAndOthersByTheirShare) {
  configure();
  request({{0, 0, 0}, {512, 0, 0}});
  EXPECT_EQ(harness_.scores(*scorer_), (std::vector<double>{1, .5}));
}

TEST_F(MinCost, CapsTheAnswerByTheRequest) {
  configure("{decodeTokenCost: 1, expectedOutputTokens: 100}");
  request::RequestView view;
  view.max_output_tokens = 10;
  request({{90, 0, 0}, {0, 0, 1}});
  harness_.context.request = &view;
  const auto scores = harness_.scores(*scorer_);
  EXPECT_NEAR(scores[1], 100.0 / 110, 1e-12);
}

TEST_F(MinCost, CountsWhatOthersSentWhileMetricsAreFresh) {
  configure();
  const auto with_metrics = [&](Nanos age) {
    request({{0, 0, 1}, {0, 0, 0}});
    for (size_t i = 0; i < 2; ++i) harness_.metrics_of(i).updated = harness_.clock.now() - age;
    harness_.metrics_of(0).running_requests_size = 1;  // ours
    harness_.metrics_of(1).running_requests_size = 3;
    return harness_.scores(*scorer_);
  };
  EXPECT_EQ(with_metrics(seconds(5)), (std::vector<double>{1, .5}));  // 2 requests against 4
  EXPECT_EQ(with_metrics(milliseconds(5001)), (std::vector<double>{.5, 1}));  // 2 against 1
}

TEST_F(MinCost, TakesWaitingRequestsOfOthersForAverageOnes) {
  configure();
  serve(0, 1000, seconds(1), 1, seconds(0));  // prompts of 1000, answers of 1: cost 2 each
  request({{0, 0, 0}, {0, 0, 0}});
  harness_.metrics_of(1).updated = harness_.clock.now();
  harness_.metrics_of(1).waiting_queue_size = 3;
  EXPECT_NEAR(harness_.scores(*scorer_)[1], 2.0 / (3000 + 8), 1e-12);
}

TEST_F(MinCost, LearnsWhoIsSlow) {
  configure();
  EXPECT_NEAR(ratio({1000, 0, 0}, {1000, 0, 0}), 1, 1e-12);
  for (int i = 0; i < 100; ++i) {
    serve(0, 10'000, seconds(2), 256, milliseconds(10));
    serve(1, 10'000, seconds(1), 256, milliseconds(10));
  }
  EXPECT_GT(ratio({10'000, 0, 0}, {10'000, 0, 0}), 1.7);
  EXPECT_LT(ratio({10'000, 0, 0}, {10'000, 0, 0}), 2);
  // Their decoding is alike.
  EXPECT_NEAR(ratio({0, 0, 9}, {0, 0, 9}), 1, 0.05);
}

TEST_F(MinCost, TakesSmallDifferencesForNone) {
  configure();
  for (int i = 0; i < 100; ++i) {
    serve(0, 10'000, milliseconds(1100), 256, milliseconds(11));
    serve(1, 10'000, milliseconds(1000), 256, milliseconds(10));
  }
  EXPECT_EQ(ratio({10'000, 0, 9}, {10'000, 0, 9}), 1);
}

TEST_F(MinCost, LearnsWhoDecodesSlowly) {
  configure();
  for (int i = 0; i < 100; ++i) {
    serve(0, 10'000, seconds(1), 256, milliseconds(30));
    serve(1, 10'000, seconds(1), 256, milliseconds(10));
  }
  EXPECT_GT(ratio({0, 0, 9}, {0, 0, 9}), 2);
}

TEST_F(MinCost, DistrustsASingleOddAnswer) {
  configure();
  for (int i = 0; i < 20; ++i)
    for (const uint32_t target : {0u, 1u}) serve(target, 10'000, seconds(1), 256, milliseconds(10));
  serve(0, 10'000, seconds(60), 256, milliseconds(10));
  EXPECT_LT(ratio({10'000, 0, 0}, {10'000, 0, 0}), 1.15);
}

TEST_F(MinCost, LearnsNothingFromShortPromptsOrBrokenAnswers) {
  configure();
  serve(1, 10'000, seconds(1), 256, milliseconds(10));
  for (int i = 0; i < 50; ++i)
    serve(0, 100, seconds(9), 256, seconds(1), EndCause::kClientDisconnect);
  EXPECT_NEAR(ratio({10'000, 0, 0}, {10'000, 0, 0}), 1, 1e-12);
}

TEST_F(MinCost, LearnsNoSpeedFromAnswersInOnePiece) {
  configure();
  streams_ = false;
  for (int i = 0; i < 50; ++i) {
    serve(0, 10'000, seconds(9), 256, seconds(0));
    serve(1, 10'000, seconds(1), 256, seconds(0));
  }
  EXPECT_NEAR(ratio({10'000, 0, 9}, {10'000, 0, 9}), 1, 1e-12);
}

TEST_F(MinCost, ForgetsSpeedsInTime) {
  configure("{speedHalfLife: 10s}");
  for (int i = 0; i < 100; ++i) {
    serve(1, 10'000, milliseconds(500), 8, milliseconds(1));
    serve(0, 10'000, seconds(1), 8, milliseconds(1));
  }
  const double fresh = ratio({100'000, 0, 0}, {100'000, 0, 0});
  harness_.clock.advance(std::chrono::hours(1));
  const double old = ratio({100'000, 0, 0}, {100'000, 0, 0});
  EXPECT_GT(fresh, 1.5);
  EXPECT_NEAR(old, 1, 0.01);
}

TEST_F(MinCost, KnowsNothingOfASuccessor) {
  configure();
  for (int i = 0; i < 100; ++i) {
    serve(0, 10'000, seconds(3), 256, milliseconds(10));
    serve(1, 10'000, seconds(1), 256, milliseconds(10));
  }
  for (const size_t i : {0u, 1u}) {
    harness_.endpoints[i] =
        std::make_shared<fleet::Endpoint>(harness_.endpoints[i]->spec(), uint32_t(i), 90 + i);
    harness_.join(i);
  }
  EXPECT_NEAR(ratio({10'000, 0, 0}, {10'000, 0, 0}), 1, 1e-12);
}

TEST_F(MinCost, NeedsTheLedgerAndPrefixMatches) {
  configure("{inFlightLoadProducerName: mine, prefixMatchInfoProducerName: exact}");
  const auto& edges = harness_.wiring.edges();
  EXPECT_EQ(edges.at(0).key, "InFlightLoadDataKey/mine");
  EXPECT_EQ(edges.at(1).key, "UncachedRequestTokensDataKey/mine");
  EXPECT_EQ(edges.at(2).key, "PrefixCacheMatchInfoDataKey/exact");
}

TEST_F(MinCost, RefusesParametersWithoutMeaning) {
  for (const auto* parameters : {"{expectedOutputTokens: 0}", "{decodeTokenCost: 0}",
                                 "{metricsStalenessThreshold: 0s}", "{speedHalfLife: 0s}"})
    EXPECT_FALSE(harness_.try_make(min_cost_scorer(), parameters)) << parameters;
}

}  // namespace
}  // namespace llmd::plugins
