#include "flow/flow_admission.h"
#include "flow/testing.h"
#include "route/director.h"
#include "route/session.h"
#include "route/testing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <list>

namespace llmd::route {
namespace {

using namespace std::chrono_literals;
using schedule::EndCause;

/// A filter that says whether there is room after all. Ejected endpoints are empty, if they are
/// asked.
class Doorman final : public schedule::Filter {
 public:
  size_t filter(schedule::RequestContext& c, std::span<uint32_t> selected) const override {
    ++asked;
    if (!full) return selected.size();
    const auto out = std::ranges::remove_if(
        selected, [&](uint32_t i) { return c.candidates[i].endpoint->health.healthy(); });
    return selected.size() - out.size();
  }
  bool full = false;
  mutable int asked = 0;
};

class SaturatedProfile final : public schedule::ProfileHandler {
 public:
  Status bind(std::span<const std::string>) override { return {}; }
  size_t next(schedule::RequestContext& c, std::span<uint16_t> run) const override {
    return c.results[0].ran ? 0 : (run[0] = 0, 1);
  }
  Status finish(schedule::RequestContext& c) const override {
    if (c.results[0].failed) return fail(Code::kResourceExhausted, "no room", "rejected-saturated");
    c.primary = 0;
    return {};
  }
};

/// Sessions behind flow control whose dispatcher runs when the test says so.
class FlowControlTest : public ::testing::Test {
 protected:
  struct Client final : SessionSink {
    explicit Client(LoopDirector& loop) : session(loop, *this) {}
    void forward(const Forward&) override { ++forwarded; }
    void reply(const Reply& r) override {
      answer = fmt::format("{} {} [{}]", r.status, r.message, r.drop_reason);
      retry_after = r.retry_after;
    }
    int forwarded = 0;
    std::string answer;
    int retry_after = 0;
    std::vector<HeaderField> fields;
    Session session;
  };

  FlowControlTest() : director_(fleet_, metrics_, clock_) {
    controller_.follow(fleet_);
    flow::testing::set_fleet(fleet_, {""});
    settings_.ttl = settings_.no_endpoint_ttl = 10s;
    configure();
    loop_.emplace(director_,
                  LoopHost{executor_, rng_, 0, [this](Nanos, std::move_only_function<void()> f) {
                             alarms_.push_back(std::move(f));
                           }});
  }
  ~FlowControlTest() override {
    clients_.clear();
    executor_.run();
    controller_.run();
    controller_.retire();
  }

  void configure() {
    auto pipeline = testing::trivial_pipeline(testing::Body::kIsTheModel);
    doorman_ = testing::own(*pipeline, std::make_unique<Doorman>());
    pipeline->profiles[0].filters.push_back({doorman_, {}});
    pipeline->handler.plugin = testing::own(*pipeline, std::make_unique<SaturatedProfile>());
    pipeline->admission = flow::flow_admission(controller_, settings_);
    director_.set_pipeline(pipeline);
    executor_.run();
  }
  Client& request(std::vector<HeaderField> fields = {}) {
    Client& client = clients_.emplace_back(*loop_);
    client.fields = std::move(fields);
    client.session.on_headers("/v1/completions", HeaderView(client.fields), false);
    client.session.on_end("model");
    return client;
  }
  void fill(double saturation) { policies_.detector.value = saturation; }
  void turn(Nanos after = 1ms) {
    clock_.advance(after);
    controller_.run();
    executor_.run();
  }
  bool shows(std::string_view line) {
    const auto page = metrics_.render();
    return page.find(line) != std::string::npos;
  }
  static std::string counted(std::string_view outcome, int n) {
    return fmt::format(
        "llm_d_epp_flow_control_requests_total{{inference_pool=\"pool\",outcome=\"{}\","
        "priority=\"0\"}} {}\n",
        outcome, n);
  }

  flow::testing::Policies policies_;
  flow::Settings settings_ = policies_.settings();
  ManualClock clock_;
  Rng rng_{1};
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  testing::StepExecutor executor_;
  flow::Controller controller_{clock_, metrics_, "pool"};
  Director director_;
  std::optional<LoopDirector> loop_;
  std::list<Client> clients_;
  std::deque<std::move_only_function<void()>> alarms_;
  Doorman* doorman_ = nullptr;
};

constexpr auto kQueued =
    "llm_d_epp_flow_control_queue_size{fairness_id=\"default-flow\",inference_pool=\"pool\","
    "model_name=\"model\",priority=\"0\",target_model_name=\"model\"} ";

TEST_F(FlowControlTest, LetsRequestsPassAtOnce) {
  EXPECT_EQ(request().forwarded, 1);
  EXPECT_TRUE(shows(counted("Dispatched", 1)));
  EXPECT_TRUE(shows(std::string(kQueued) + "0\n"));
  EXPECT_TRUE(shows(
      "llm_d_epp_flow_control_request_enqueue_duration_seconds_count{fairness_id=\"default-flow\","
      "outcome=\"NotYetFinalized\",priority=\"0\"} 1\n"));
}

TEST_F(FlowControlTest, KeepsRequestsUntilThereIsRoom) {
  fill(1);
  clock_.advance(1ms);
  Client& first = request();
  Client& second = request();
  turn();
  EXPECT_EQ(first.forwarded + second.forwarded, 0);
  EXPECT_TRUE(shows(std::string(kQueued) + "2\n"));
  policies_.detector.each = 1;
  fill(0);
  turn();
  EXPECT_EQ(first.forwarded, 1);
  EXPECT_EQ(second.forwarded, 0);
  turn();
  EXPECT_EQ(second.forwarded, 1);
  EXPECT_TRUE(shows(std::string(kQueued) + "0\n"));
  EXPECT_TRUE(shows(counted("Dispatched", 2)));
}

TEST_F(FlowControlTest, RefusesWithTheContractsWords) {
  settings_.bands[1].limits.requests = 1;
  configure();
  fill(1);
  clock_.advance(1ms);
  Client& waits = request();
  Client& refused = request();
  turn();
  EXPECT_EQ(refused.answer,
            "429 inference error: ResourceExhausted - request rejected pre-queue: queue at "
            "capacity [rejected-saturated]");
  turn(10s);
  EXPECT_EQ(waits.answer,
            "429 inference error: ResourceExhausted - request timed out in queue: request evicted "
            "from queue: request TTL expired [rejected-ttl-expired]");
  EXPECT_TRUE(shows(counted("RejectedCapacity", 1)));
  EXPECT_TRUE(shows(counted("EvictedTTL", 1)));
}

TEST_F(FlowControlTest, RefusesWithoutEndpoints) {
  flow::testing::set_fleet(fleet_, {});
  settings_.bands[1].limits.requests = 1;
  configure();
  Client& waits = request();
  Client& refused = request();
  turn();
  EXPECT_EQ(refused.answer,
            "503 inference error: ServiceUnavailable - no endpoints available: request rejected "
            "pre-queue: no endpoints available [rejected-no-endpoints]");
  turn(10s);
  EXPECT_EQ(waits.answer,
            "503 inference error: ServiceUnavailable - request timed out in queue and no endpoints "
            "are available: request evicted from queue: no endpoints available "
            "[rejected-no-endpoints]");
}

TEST_F(FlowControlTest, WakesWithThePool) {
  flow::testing::set_fleet(fleet_, {});
  executor_.run();
  Client& client = request();
  turn(5s);
  flow::testing::set_fleet(fleet_, {""});
  executor_.run();
  turn();
  EXPECT_EQ(client.forwarded, 1);
}

TEST_F(FlowControlTest, ForgetsClientsThatGo) {
  fill(1);
  clock_.advance(1ms);
  Client& client = request();
  turn();
  client.session.on_abort();
  EXPECT_TRUE(shows(std::string(kQueued) + "0\n"));
  EXPECT_TRUE(shows(counted("EvictedContextCancelled", 1)));
  turn();
  EXPECT_EQ(controller_.waiting(), 0u);
}

TEST_F(FlowControlTest, GivesBackRoomOfClientsThatGoWhenLetIn) {
  fill(1);
  clock_.advance(1ms);
  Client& client = request();
  turn();
  policies_.detector.each = 1;
  fill(0);
  clock_.advance(1ms);
  controller_.run();  // it is let in, but does not know it yet
  client.session.on_abort();
  executor_.run();
  EXPECT_TRUE(shows(counted("Dispatched", 1)));
  clock_.advance(1ms);
  EXPECT_EQ(request().forwarded, 1);
}

TEST_F(FlowControlTest, AnswersEveryoneWhenItStops) {
  fill(1);
  clock_.advance(1ms);
  Client& waits = request();
  turn();
  director_.begin_drain();
  executor_.run();
  EXPECT_EQ(waits.answer,
            "503 inference error: ServiceUnavailable - flow controller shutting down: request "
            "evicted from queue: flow controller is not running [rejected-shutting-down]");
  EXPECT_EQ(request().answer,
            "503 inference error: ServiceUnavailable - flow controller shutting down: request "
            "rejected pre-queue: flow controller is not running [rejected-shutting-down]");
  EXPECT_TRUE(shows(counted("EvictedOther", 2)));
  turn();
  EXPECT_EQ(controller_.waiting(), 0u);
}

TEST_F(FlowControlTest, KeepsPlacesWhenReloaded) {
  fill(1);
  clock_.advance(1ms);
  std::vector<Client*> line;
  for (int i = 0; i < 3; ++i) {
    line.push_back(&request());
    turn();
    configure();
  }
  policies_.detector.each = 1;
  for (Client* next : line) {
    EXPECT_EQ(next->forwarded, 0);
    fill(0);
    turn();
    EXPECT_EQ(next->forwarded, 1);
  }
}

TEST_F(FlowControlTest, LetsARequestWaitAgainWhenThereWasNoRoom) {
  doorman_->full = true;
  Client& client = request();
  EXPECT_EQ(client.answer, "");
  doorman_->full = false;
  alarms_.front()();
  EXPECT_EQ(client.forwarded, 1);
}

TEST_F(FlowControlTest, LetsARequestWaitAgainWhenThePoolIsEmptyAfterAll) {
  const auto before = fleet_.snapshot();
  flow::testing::set_fleet(fleet_, {});
  controller_.set_pool(before);  // the dispatcher hears of it later than the loop
  executor_.run();
  Client& client = request();
  EXPECT_EQ(client.answer, "");
  flow::testing::set_fleet(fleet_, {""});
  executor_.run();
  alarms_.front()();
  EXPECT_EQ(client.forwarded, 1);
}

TEST_F(FlowControlTest, RefusesWhenThereIsNoRoomForLong) {
  doorman_->full = true;
  Client& client = request();
  for (; !alarms_.empty(); alarms_.pop_front()) alarms_.front()();
  EXPECT_EQ(client.answer, "429 inference error: ResourceExhausted - no room [rejected-saturated]");
  EXPECT_EQ(doorman_->asked, 3);
}

TEST_F(FlowControlTest, WaitsForRoomRatherThanGoToAnEjectedEndpoint) {
  flow::testing::set_fleet(fleet_, {"", ""});
  executor_.run();
  const auto pool = fleet_.snapshot();
  fleet::Ejector(fleet_, metrics_, {})
      .failed(*pool->endpoints[0], fleet::Ejector::Cause::kConnect, *pool, clock_.now());
  doorman_->full = true;
  Client& client = request();
  EXPECT_EQ(client.answer, "");
  for (; !alarms_.empty(); alarms_.pop_front()) alarms_.front()();
  EXPECT_EQ(client.answer, "429 inference error: ResourceExhausted - no room [rejected-saturated]");
  EXPECT_EQ(client.forwarded, 0);
}

TEST_F(FlowControlTest, WaitsForRoomWhenTheEndpointThatHadSomeFails) {
  flow::testing::set_fleet(fleet_, {"", ""});
  executor_.run();
  Client& client = request();
  EXPECT_EQ(client.forwarded, 1);
  doorman_->full = true;
  client.session.on_upstream_failed(UpstreamFailure::kConnect);
  EXPECT_EQ(client.answer, "");
  doorman_->full = false;
  alarms_.front()();
  EXPECT_EQ(client.forwarded, 2);
  EXPECT_TRUE(shows(std::string(kQueued) + "0\n"));
}

TEST_F(FlowControlTest, SaysThatTheEndpointFailedWhenThereIsNoRoomForLongAfterIt) {
  flow::testing::set_fleet(fleet_, {"", ""});
  executor_.run();
  Client& client = request();
  doorman_->full = true;
  client.session.on_upstream_failed(UpstreamFailure::kConnect);
  for (; !alarms_.empty(); alarms_.pop_front()) alarms_.front()();
  EXPECT_TRUE(client.answer.starts_with("503 ")) << client.answer;
  EXPECT_EQ(client.forwarded, 1);
  EXPECT_TRUE(shows(std::string(kQueued) + "0\n"));
}

TEST_F(FlowControlTest, SaysWhenToComeAgain) {
  settings_.refuse_late = true;
  configure();
  policies_.detector.each = 1;
  fill(1);
  clock_.advance(1ms);
  for (int i = 0; i < 20; ++i) request();
  for (int second = 0; second < 5; ++second) {  // one a second
    fill(0);
    turn(500ms);
    fill(1);
    turn(500ms);
  }
  Client& hurried = request({{"x-llm-d-slo-ttft-ms", "2000"}});
  turn();
  EXPECT_EQ(hurried.answer,
            "429 inference error: ResourceExhausted - deadline cannot be met: request rejected "
            "pre-queue: expected wait is too long [rejected-deadline]");
  EXPECT_GT(hurried.retry_after, 5);
  EXPECT_LT(hurried.retry_after, 15);
}

TEST_F(FlowControlTest, HonoursTheTimeThatAClientGives) {
  settings_.ttl_header = "x-wait-ms";
  configure();
  fill(1);
  clock_.advance(1ms);
  Client& brief = request({{"x-wait-ms", "50"}});
  Client& patient = request({{"x-wait-ms", "99999999"}});
  turn();
  turn(50ms);
  EXPECT_NE(brief.answer, "");
  EXPECT_EQ(patient.answer, "");
  turn(10s);
  EXPECT_NE(patient.answer, "");
}

TEST_F(FlowControlTest, DropsTheSeriesOfIdleTenants) {
  request({{"x-llm-d-inference-fairness-id", "gone"}}).session.on_response_headers(200, {});
  turn();
  EXPECT_TRUE(shows("fairness_id=\"gone\""));
  turn(flow::Controller::kCollectInterval + 1s);
  const auto page = metrics_.render();
  EXPECT_EQ(page.find("queue_size{fairness_id=\"gone\""), std::string::npos);
  request({{"x-llm-d-inference-fairness-id", "gone"}});
  EXPECT_TRUE(shows("queue_size{fairness_id=\"gone\""));
}

}  // namespace
}  // namespace llmd::route
