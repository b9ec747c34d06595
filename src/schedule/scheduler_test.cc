#include "schedule/decision_notes.h"
#include "schedule/stopwatch.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace llmd::schedule {
namespace {

using testing::Harness;

class OneRound final : public ProfileHandler {
 public:
  Status bind(std::span<const std::string>) override { return {}; }
  size_t next(RequestContext& context, std::span<uint16_t> run) const override {
    if (!repeats && context.results[0].ran) return 0;
    run[0] = 0;
    return asks_nothing ? 0 : 1;
  }
  Status finish(RequestContext& context) const override {
    if (context.results[0].failed) return fail(Code::kUnknown, "no result");
    context.primary = 0;
    return refusal ? Status(fail(*refusal)) : Status();
  }
  bool repeats = false;
  bool asks_nothing = false;
  std::optional<Error> refusal;
};

class Fixed final : public Scorer {
 public:
  explicit Fixed(std::vector<double> s) : values(std::move(s)) {}
  void score(RequestContext&, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    for (size_t i = 0; i < selected.size(); ++i) scores[i] = values[selected[i]];
  }
  std::vector<double> values;
};

class Drop final : public Filter {
 public:
  explicit Drop(std::function<bool(uint32_t)> p) : drops(std::move(p)) {}
  size_t filter(RequestContext&, std::span<uint32_t> selected) const override {
    calls++;
    return std::remove_if(selected.begin(), selected.end(), drops) - selected.begin();
  }
  std::function<bool(uint32_t)> drops;
  mutable int calls = 0;
};

class Best final : public Picker {
 public:
  size_t pick(RequestContext&, std::span<const uint32_t> selected, std::span<const double> totals,
              std::span<uint32_t> picked) const override {
    picked[0] = selected[std::max_element(totals.begin(), totals.end()) - totals.begin()];
    return 1;
  }
};

struct Scheduler : ::testing::Test {
  Scheduler() {
    pipeline.handler.plugin = &handler;
    pipeline.handler.duration = duration();
    auto& profile = pipeline.profiles.emplace_back();
    profile.name = "default";
    profile.picker = {&picker, duration()};
  }
  metric::Histogram duration() {
    return harness.metric_registry()
        .family({.name = "d", .kind = metric::Kind::kHistogram, .help = "d"})
        .histogram({});
  }
  void add(const Scorer& scorer, double weight) {
    pipeline.profiles[0].scorers.push_back({{&scorer, duration()}, weight});
  }
  void add(const Filter& filter) { pipeline.profiles[0].filters.push_back({&filter, duration()}); }

  Harness harness{3};
  OneRound handler;
  Best picker;
  Pipeline pipeline;
};

TEST_F(Scheduler, SumsClampedScoresByWeight) {
  const Fixed first({0.5, 2.0, -1.0});
  const Fixed second({std::nan(""), 0.25, 1.0});
  add(first, 2);
  add(second, 3);
  ASSERT_TRUE(run_scheduler(harness.context, pipeline));
  const auto totals = harness.context.results[0].totals;
  EXPECT_EQ(std::vector(totals.begin(), totals.end()), (std::vector{1.0, 2.75, 3.0}));
  EXPECT_EQ(&harness.context.target(), harness.endpoints[2].get());
}

TEST_F(Scheduler, TakesNotesOfFiltersScoresAndCosts) {
  const Drop nobody([](uint32_t) { return false; });
  const Drop second([](uint32_t c) { return c == 1; });
  const Fixed scorer({0.5, 1, 2.0});
  add(nobody);
  add(second);
  add(scorer, 2);
  DecisionNotes notes;
  auto& context = harness.context;
  context.notes = &notes;
  const auto candidates = context.candidates;
  prepare(context, pipeline);
  context.candidates = candidates;
  ASSERT_TRUE(run_scheduler(context, pipeline));
  const auto& of_profile = notes.profiles[0];
  EXPECT_EQ(std::vector(of_profile.passed.begin(), of_profile.passed.end()),
            (std::vector<uint16_t>{2, 1, 2}));
  EXPECT_EQ(std::vector(of_profile.scores.begin(), of_profile.scores.end()),
            (std::vector{0.5, 2.0}));
  EXPECT_EQ(of_profile.seconds.size(), 4u) << "two filters, a scorer, the picker";
  EXPECT_EQ(context.results[0].totals[1], 2.0) << "totals are of clamped scores";
  context.notes = nullptr;
}

TEST_F(Scheduler, AddsInProfileOrderInDoubles) {
  const Fixed a({0.1, 0, 0}), b({0.2, 0, 0}), c({0.3, 0, 0});
  add(a, 1.1);
  add(b, 1.3);
  add(c, 1.7);
  ASSERT_TRUE(run_scheduler(harness.context, pipeline));
  double expected = 0;
  for (const auto& [score, weight] : {std::pair{0.1, 1.1}, {0.2, 1.3}, {0.3, 1.7}}) {
    const volatile double product = score * weight;
    expected += product;
  }
  EXPECT_EQ(harness.context.results[0].totals[0], expected);
}

TEST_F(Scheduler, FeedsEachFilterTheSurvivorsOfTheLast) {
  const Drop first([](uint32_t i) { return i == 0; });
  const Drop second([](uint32_t i) { return i == 2; });
  add(first);
  add(second);
  ASSERT_TRUE(run_scheduler(harness.context, pipeline));
  ASSERT_EQ(harness.context.results[0].scored.size(), 1u);
  EXPECT_EQ(harness.context.results[0].scored[0], 1u);
}

TEST_F(Scheduler, DrainedProfileRefusesAsSaturated) {
  const Drop all([](uint32_t) { return true; });
  const Drop after([](uint32_t) { return false; });
  add(all);
  add(after);
  const auto status = run_scheduler(harness.context, pipeline);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kResourceExhausted);
  EXPECT_EQ(status.error().message, "no endpoints available for the given request");
  EXPECT_EQ(status.error().drop_reason, "rejected-saturated");
  EXPECT_EQ(after.calls, 0);
}

TEST_F(Scheduler, KeepsTheHandlersTypedError) {
  handler.refusal = Error{Code::kPreconditionFailed, "not cached", ""};
  const auto status = run_scheduler(harness.context, pipeline);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kPreconditionFailed);
}

TEST_F(Scheduler, UntypedErrorBecomesExhausted) {
  handler.refusal = Error{Code::kUnknown, "odd", ""};
  const auto status = run_scheduler(harness.context, pipeline);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kResourceExhausted);
  EXPECT_EQ(status.error().message, "failed to find target endpoint: odd");
  EXPECT_EQ(status.error().drop_reason, "");
}

TEST_F(Scheduler, EndsAHandlerThatRepeatsItself) {
  handler.repeats = true;
  const auto status = run_scheduler(harness.context, pipeline);
  ASSERT_FALSE(status);
  EXPECT_TRUE(
      status.error().message.starts_with("failed to find target endpoint: profile handler"));
}

TEST_F(Scheduler, RefusesWhenNoProfileRuns) {
  handler.asks_nothing = true;
  EXPECT_EQ(run_scheduler(harness.context, pipeline).error().message,
            "failed to find target endpoint: no profile ran");
}

TEST(Prepare, GivesEveryColumnSlotAndProfileAPlace) {
  Arena arena;
  Rng rng(1);
  ManualClock clock;
  RequestContext context(arena, rng, clock);
  Pipeline pipeline;
  pipeline.columns = 3;
  pipeline.slots = 2;
  pipeline.profiles.resize(2);
  prepare(context, pipeline);
  EXPECT_EQ(context.columns.size(), 3u);
  EXPECT_EQ(context.slots.size(), 2u);
  EXPECT_EQ(context.results.size(), 2u);
  EXPECT_FALSE(context.results[1].ran);
}

TEST(Prepare, ForgetsHeadersAndTheMemoryTheyWereIn) {
  Arena arena;
  Rng rng(1);
  ManualClock clock;
  RequestContext context(arena, rng, clock);
  context.request_headers.set("a", "1");
  context.forward_port = 80;
  arena.reset();
  prepare(context, {});
  EXPECT_TRUE(context.request_headers.fields().empty());
  EXPECT_EQ(context.forward_port, 0);
  const auto other = arena.array<uint64_t>(64);
  for (const auto* name : {"a", "b", "a"}) context.request_headers.set(name, name);
  EXPECT_EQ(context.request_headers.fields().size(), 2u);
  for (const uint64_t word : other) EXPECT_EQ(word, 0u);
}

TEST(HeaderEdits, LastOneOfANameWins) {
  Arena arena;
  HeaderEdits edits(arena);
  edits.set("a", "1");
  edits.set("b", "2");
  edits.set("a", "3");
  ASSERT_EQ(edits.fields().size(), 2u);
  EXPECT_EQ(edits.fields()[0].value, "3");
  EXPECT_EQ(edits.fields()[1].name, "b");
}

TEST(Stopwatch, MeasuresSecondsSinceTheLastLap) {
  using Steady = std::chrono::steady_clock;
  const auto start = Steady::now();
  schedule::Stopwatch watch;
  while (Steady::now() - start < std::chrono::milliseconds(2)) {
  }
  const double lap = watch.lap();
  const double bound = std::chrono::duration<double>(Steady::now() - start).count();
  EXPECT_GT(lap, 0.001);
  EXPECT_LT(lap, bound * 1.5);
}

}  // namespace
}  // namespace llmd::schedule
