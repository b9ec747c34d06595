#include "program_services.h"

#include "flow/queues.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& program_aware_fairness();

namespace {

using namespace std::chrono_literals;

/// Programs with a service and a first request that has waited.
class ProgramAwareFairness : public ::testing::Test {
 protected:
  struct Program {
    std::string id;
    double service;
    int64_t wait_ms;
  };
  /// The order in which they go, each once.
  std::string order(const std::vector<Program>& programs) {
    const auto& policy = harness_.make<flow::FairnessPolicy>(program_aware_fairness());
    const auto state = harness_.state.get<ProgramServices>("program-aware-fairness",
                                                           [] { return new ProgramServices; });
    const TimePoint now(10s);
    flow::Band band;
    std::vector<std::unique_ptr<flow::Flow>> flows;
    std::vector<std::unique_ptr<flow::Waiter>> waiters;
    const auto picker = policy.make_picker();
    for (const auto& program : programs) {
      state->find_or_add(program.id)->end(program.service, now, 60s);
      auto& flow = *flows.emplace_back(std::make_unique<flow::Flow>(band, program.id));
      auto& waiter = *waiters.emplace_back(std::make_unique<flow::Waiter>());
      waiter.enqueued = now - std::chrono::milliseconds(program.wait_ms);
      flow.queue.push({}, waiter);
      picker->add(flow);
    }
    std::string out;
    for (size_t i = 0; i < programs.size(); ++i) {
      auto* flow = picker->pick(now);
      out += flow->id;
      picker->remove(*flow);
    }
    EXPECT_EQ(picker->pick(now), nullptr);
    return out;
  }

  schedule::testing::Harness harness_{1};
};

TEST_F(ProgramAwareFairness, PrefersWhoWaitsAmongEquals) {
  EXPECT_EQ(order({{"A", 0, 10}, {"B", 0, 50}}), "BA");  // .4, .6
}

TEST_F(ProgramAwareFairness, PrefersWhoWasServedLess) {
  EXPECT_EQ(order({{"A", 1000, 500}, {"B", 100, 10}}), "BA");                      // .2, .8
  EXPECT_EQ(order({{"A", 1000, 500}, {"B", 900, 10}, {"C", 0, 0}}).front(), 'C');  // .2, .084, .8
}

TEST_F(ProgramAwareFairness, ForgetsServicesByHalf) {
  plugins::Program program;
  program.end(1000, TimePoint(1s), 60s);
  EXPECT_EQ(program.service(), 1000);
  program.end(0, TimePoint(31s), 60s);
  EXPECT_NEAR(program.service(), 707.1068, 1e-4);
  plugins::Program other;
  other.end(1000, TimePoint(1s), 60s);
  other.end(0, TimePoint(121s), 60s);
  EXPECT_NEAR(other.service(), 250, 1e-9);
}

TEST_F(ProgramAwareFairness, ChargesWhatARequestCosts) {
  harness_.make<flow::FairnessPolicy>(program_aware_fairness());
  const auto state = harness_.state.get<ProgramServices>("program-aware-fairness",
                                                         [] { return new ProgramServices; });
  harness_.context.fairness_id = "A";
  const auto& hooks = harness_.make<schedule::ResponseHook>(program_aware_fairness());
  const auto& before = dynamic_cast<const schedule::PreRequest&>(hooks);
  harness_.clock.advance(40ms);
  EXPECT_TRUE(before.pre_request(harness_.context));
  EXPECT_EQ(state->find_or_add("A")->in_flight(), 1);
  EXPECT_EQ(state->find_or_add("A")->mean_wait_ms(), 40);
  hooks.on_end(harness_.context, schedule::EndCause::kNatural,
               {.prompt_tokens = 100, .completion_tokens = 50});
  EXPECT_EQ(state->find_or_add("A")->service(), 200);
  EXPECT_EQ(state->dump(), R"({"totalPrograms":1,"totalInFlight":0,"fairnessIndex":1.000000})");
}

TEST_F(ProgramAwareFairness, ForgetsProgramsWithNothingToDo) {
  ProgramServices programs;
  programs.find_or_add("old")->begin(0s);
  programs.find_or_add("old")->end(1, TimePoint(1s), 60s);
  programs.find_or_add("runs")->begin(0s);
  programs.sweep(TimePoint(1h), 300s, 1h - 2s);
  EXPECT_NE(programs.dump().find(R"("totalPrograms":1)"), std::string::npos);
}

TEST(JainIndex, IsOneWhenAllAreEqual) {
  const auto of = [](std::vector<double> values) { return jain_index(values); };
  EXPECT_EQ(of({10, 10}), 1);
  EXPECT_NEAR(of({10, 30}), .8, 1e-12);
  EXPECT_NEAR(of({1, 2, 3}), .857142857, 1e-9);
  EXPECT_EQ(of({5}), 1);
  EXPECT_EQ(of({0, 0}), 1);
}

TEST_F(ProgramAwareFairness, ChecksItsParameters) {
  for (const auto* bad : {"{strategy: other}", "{evictionSweepSeconds: 0}", "{lasDecayFactor: 1}"})
    EXPECT_FALSE(harness_.try_make(program_aware_fairness(), bad)) << bad;
}

}  // namespace
}  // namespace llmd::plugins
