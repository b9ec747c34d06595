#include "idle_fleet.h"

#include "config/objects_dir.h"
#include "route/session.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace llmd::regress {
namespace {

/// llm-d-router#1735, #2046, #2097, GIE#2103: 429, 503 and 500 were mixed up. Here are the rows of
/// requests that reach the scheduler or wait for admission; case_23_queues_test.cc has those of the
/// queues of flow control.

struct Row {
  const char* name;
  std::string plugins;
  std::vector<std::pair<std::string, std::string>> labels;
  size_t endpoints;
  int status;
  const char* reason;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

std::string profile_of(const std::string& plugins, const std::string& references) {
  return plugins + "- {type: queue-scorer}\nschedulingProfiles:\n- name: default\n  plugins:\n" +
         references + "  - {pluginRef: queue-scorer}\n";
}

const Row kRows[] = {
    {"FiltersDrain",
     profile_of("- {type: decode-filter}\n", "  - {pluginRef: decode-filter}\n"),
     {{"llm-d.ai/role", "prefill"}},
     2,
     429,
     "rejected-saturated"},
    {"NothingLocated", profile_of("", ""), {}, 0, 503, "rejected-no-endpoints"},
    {"ScreenersDropAll",
     profile_of("- {type: disaggregatedset-rollout-screener, parameters: {scope: {labelSelector: "
                "{matchLabels: {app: a}}}, revisionGating: {mode: sum, requireRoles: {values: "
                "[decode]}}}}\n",
                ""),
     {},
     2,
     503,
     "rejected-no-endpoints"},
    {"AllIsWell", profile_of("", ""), {}, 2, 0, ""},
};

class Case23 : public ::testing::TestWithParam<Row> {};

TEST_P(Case23, StatusAndReason) {
  auto fleet = idle_fleet(GetParam().endpoints);
  fleet.plugins = GetParam().plugins;
  for (auto& endpoint : fleet.endpoints) endpoint.labels = GetParam().labels;
  conformance::Picker picker(fleet);
  const auto answer = picker.run(completion("probe", "\"p\""));
  EXPECT_EQ(answer.status, GetParam().status) << answer.error;
  EXPECT_EQ(answer.reason, GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(Rows, Case23, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Case23Priorities, OnlySheddableRequestsAreShed) {
  auto fleet = idle_fleet(1);
  fleet.endpoints[0].metrics =
      "vllm:num_requests_running 9\nvllm:num_requests_waiting 900\nvllm:kv_cache_usage_perc 1\n";
  auto objects = std::make_shared<const request::Objects>(
      std::vector{request::Objective{.name = "batch", .priority = -1}},
      std::vector<request::ModelRewrite>{});
  conformance::Picker picker(fleet, objects);
  auto step = completion("probe", "\"p\"");
  EXPECT_EQ(picker.run(step).status, 0);
  step.headers = {{"x-llm-d-inference-objective", "batch"}};
  const auto answer = picker.run(step);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.reason, "rejected-saturated");
}

/// Never lets anybody in.
struct Closed final : schedule::Admission {
  Result<schedule::Progress> admit(
      schedule::RequestContext& context,
      const std::function<std::span<const schedule::Candidate>()>&) const override {
    resume = context.suspend();
    return schedule::Progress::kSuspended;
  }
  Nanos deadline() const override { return std::chrono::seconds(60); }
  mutable schedule::Signal resume;
};

struct Waiting : ::testing::Test, route::SessionSink {
  Waiting() {
    auto pipeline = route::testing::trivial_pipeline();
    pipeline->admission = std::make_unique<Closed>();
    director.set_pipeline(pipeline);
    fleet.set(route::testing::endpoints_at({8000}));
    loop.emplace(director, route::LoopHost{executor, rng, 0,
                                           [this](Nanos, auto work) { alarm = std::move(work); }});
    session.emplace(*loop, *this);
    executor.run();
    session->on_headers("/v1/completions", {}, false);
    session->on_end("body");
  }
  void forward(const route::Forward&) override { ADD_FAILURE() << "let in"; }
  void reply(const route::Reply& r) override {
    status = r.status;
    reason = r.drop_reason;
  }

  ManualClock clock;
  Rng rng{1};
  metric::Registry metrics{1};
  route::testing::StepExecutor executor;
  fleet::Fleet fleet;
  route::Director director{fleet, metrics, clock};
  std::optional<route::LoopDirector> loop;
  std::optional<route::Session> session;
  std::move_only_function<void()> alarm;
  int status = 0;
  std::string reason;
};

using Case23Waiting = Waiting;

TEST_F(Case23Waiting, ItsTimeIsUp) {
  alarm();
  EXPECT_EQ(status, 429);
  EXPECT_EQ(reason, "rejected-ttl-expired");
}

TEST_F(Case23Waiting, ThePoolShutsDown) {
  director.begin_drain();
  executor.run();
  EXPECT_EQ(status, 503);
  EXPECT_EQ(reason, "rejected-shutting-down");
}

TEST_F(Case23Waiting, TheClientLeaves) {
  session->on_abort();
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(session->active());
}

}  // namespace
}  // namespace llmd::regress
