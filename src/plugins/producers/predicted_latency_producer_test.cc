#include "predict/latency_predictor.h"
#include "producers/testing.h"
#include "schedule/attributes.h"
#include "schedule/moved_hook.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& predicted_latency_producer();

namespace {

using predict::LatencyFeatures;
using predict::LatencyPredictorSlot;
using predict::PredictedLatency;
using schedule::InFlightLoad;
using schedule::LatencyPrediction;
using schedule::PrefixMatch;
using schedule::PreRequest;
using schedule::Producer;
using schedule::Progress;
using schedule::ResponseHook;
using schedule::testing::Harness;
using schedule::testing::Labels;

constexpr auto kName = "predicted-latency-producer";

/// Answers what the test says, after one suspension if asked to.
struct FakePredictor final : predict::LatencyPredictor {
  Result<Progress> predict(schedule::RequestContext&, uint64_t& ticket,
                           std::span<const LatencyFeatures> features,
                           std::span<PredictedLatency> latencies) override {
    seen.assign(features.begin(), features.end());
    tickets.push_back(std::exchange(ticket, 7));
    if (fails) return fail(Code::kInternal, "no answer");
    if (std::exchange(suspends, false)) return Progress::kSuspended;
    std::ranges::copy(answer, latencies.begin());
    return Progress::kDone;
  }
  void learn(const LatencyFeatures& features, PredictedLatency actual, WallTime) override {
    learnt.emplace_back(features.running_requests, actual.ttft_ms, actual.tpot_ms);
  }
  std::vector<std::tuple<int64_t, double, double>> learnt;
  std::vector<uint64_t> tickets;
  std::vector<PredictedLatency> answer = {{100, 10}, {300, 30}};
  std::vector<LatencyFeatures> seen;
  bool fails = false;
  bool suspends = false;
};

class PredictedLatencyTest : public ::testing::Test {
 protected:
  void configure(std::string_view parameters = "{streamingMode: true}") {
    harness_.state.get<LatencyPredictorSlot>(LatencyPredictorSlot::kName, [&] {
      return new LatencyPredictorSlot{[this] { return predictor_; }};
    });
    producer_ = &harness_.make<Producer>(predicted_latency_producer(), parameters);
  }
  void request(std::string_view ttft, std::string_view tpot) {
    harness_.fresh_request();
    fields_ = {{"x-llm-d-slo-ttft-ms", ttft}, {"x-llm-d-slo-tpot-ms", tpot}};
    harness_.context.headers = HeaderView(fields_);
  }
  std::span<const LatencyPrediction> predictions() {
    EXPECT_TRUE(producer_->produce(harness_.context));
    return harness_.context.read(
        harness_.wiring.consumes<LatencyPrediction>(kName, schedule::Need::kOptional));
  }
  void send_to(uint32_t target) {
    harness_.choose(0, target);
    EXPECT_TRUE(dynamic_cast<const PreRequest*>(producer_)->pre_request(harness_.context));
  }
  void end(request::Usage usage = {}) {
    dynamic_cast<const ResponseHook&>(*producer_)
        .on_end(harness_.context, schedule::EndCause::kNatural, usage);
  }
  /// Eleven tokens: the first after 250 ms, the last 300 ms later.
  void stream_answer() {
    harness_.clock.advance(std::chrono::milliseconds(250));
    dynamic_cast<const ResponseHook&>(*producer_).on_first_chunk(harness_.context);
    harness_.clock.advance(std::chrono::milliseconds(300));
    end({.completion_tokens = 11, .present = true});
  }

  Harness harness_{{Labels{}, Labels{{"role", "prefill"}}}};
  std::shared_ptr<FakePredictor> predictor_ = std::make_shared<FakePredictor>();
  const Producer* producer_ = nullptr;
  std::vector<HeaderField> fields_;
};

TEST_F(PredictedLatencyTest, PredictsNothingWithoutPredictor) {
  predictor_ = nullptr;
  configure();
  request("500", "20");
  EXPECT_TRUE(predictions().empty());
}

TEST_F(PredictedLatencyTest, ComparesWithTheObjectives) {
  configure();
  request("200", "20");
  const auto p = predictions();
  ASSERT_EQ(p.size(), 2u);
  EXPECT_TRUE(p[0].present && p[0].ttft_valid && p[0].tpot_valid);
  EXPECT_EQ(p[0].ttft_headroom, 100);
  EXPECT_EQ(p[0].tpot_headroom, 10);
  EXPECT_FALSE(p[1].ttft_valid || p[1].tpot_valid);
  EXPECT_EQ(p[1].ttft_headroom, -100);
  EXPECT_EQ(p[1].tpot_headroom, -10);
  EXPECT_EQ(p[1].ttft, 300);
}

TEST_F(PredictedLatencyTest, HasNoHeadroomWithoutObjectives) {
  configure();
  harness_.fresh_request();
  const auto p = predictions();
  EXPECT_FALSE(p[0].ttft_valid || p[0].tpot_valid);
  EXPECT_EQ(p[0].ttft_headroom, -100);
}

TEST_F(PredictedLatencyTest, LeavesTheTimePerTokenOutWhereItDoesNotCount) {
  configure("{}");
  request("200", "20");
  EXPECT_TRUE(predictions()[1].tpot_valid);
  EXPECT_EQ(predictions()[1].tpot_headroom, 0);
}

TEST_F(PredictedLatencyTest, AsksNoTimePerTokenOfPrefillEndpoints) {
  configure("{streamingMode: true, endpointRoleLabel: role}");
  request("200", "20");
  const auto p = predictions();
  EXPECT_EQ(p[0].tpot_headroom, 10);
  EXPECT_EQ(p[1].tpot_headroom, 0);
  EXPECT_EQ(predictor_->seen[1].role, "prefill");
}

TEST_F(PredictedLatencyTest, KeepsTheObjectivesOfRunningRequests) {
  configure("{streamingMode: true, sloBufferFactor: 0.5}");
  request("200", "100");
  EXPECT_EQ(predictions()[0].tpot_headroom, 40);
  send_to(0);
  EXPECT_EQ(predictions()[0].dispatched, 1);
  fields_[1].value = "30";
  harness_.context.headers = HeaderView(fields_);
  EXPECT_EQ(predictions()[0].tpot_headroom, 5);  // its own 30
  fields_[1].value = "1000";
  EXPECT_EQ(predictions()[0].tpot_headroom, 40);  // the 100 of the one that runs
  EXPECT_EQ(predictions()[1].tpot_headroom, 470);
  end();
  end();
  EXPECT_EQ(predictions()[0].tpot_headroom, 490);
  EXPECT_EQ(predictions()[0].dispatched, 0);
}

TEST_F(PredictedLatencyTest, CountsARequestWhereItIsServedAndLearnsNothingOfIt) {
  configure();
  request("200", "100");
  send_to(0);
  harness_.choose(0, 1);
  dynamic_cast<const schedule::MovedHook&>(*producer_).on_moved(harness_.context);
  EXPECT_EQ(predictions()[0].dispatched, 0);
  EXPECT_EQ(predictions()[1].dispatched, 1);
  stream_answer();
  EXPECT_EQ(predictions()[1].dispatched, 0);
  EXPECT_TRUE(predictor_->learnt.empty());
}

TEST_F(PredictedLatencyTest, DescribesTheEndpoints) {
  configure();
  const testing::TokenRequest tokens(harness_, {100});
  harness_.metrics_of(0).kv_cache_usage = 1.5;
  harness_.metrics_of(0).waiting_queue_size = 4;
  harness_.metrics_of(1).running_requests_size = 9;
  const auto matches = harness_.provide<PrefixMatch>("approx-prefix-cache-producer");
  matches[0] = {.match_blocks = 1, .total_blocks = 4};
  const auto load = harness_.provide<InFlightLoad>("inflight-load-producer");
  load[0] = {.tokens = 70, .requests = 2};
  predictions();
  const auto& f = predictor_->seen[0];
  EXPECT_EQ(f.kv_cache_usage, 1);
  EXPECT_EQ(f.input_tokens, 100);
  EXPECT_EQ(f.waiting_requests, 4);
  EXPECT_EQ(f.running_requests, 2);
  EXPECT_EQ(f.prefix_share, .25);
  EXPECT_EQ(f.prefill_tokens_in_flight, 70);
}

TEST_F(PredictedLatencyTest, WaitsForItsPredictorAndSurvivesItsFailure) {
  configure();
  predictor_->suspends = true;
  request("200", "20");
  auto progress = producer_->produce(harness_.context);
  ASSERT_TRUE(progress);
  EXPECT_EQ(*progress, Progress::kSuspended);
  EXPECT_EQ(predictions().size(), 2u);
  EXPECT_EQ(predictor_->tickets, (std::vector<uint64_t>{0, 7}));
  request("200", "20");
  predictor_->fails = true;
  EXPECT_FALSE(producer_->produce(harness_.context));
}

TEST_F(PredictedLatencyTest, TeachesWhatStreamsTook) {
  configure();
  request("200", "20");
  harness_.metrics_of(1).running_requests_size = 3;
  predictions();
  send_to(1);
  stream_answer();
  EXPECT_EQ(predictor_->learnt,
            (std::vector<std::tuple<int64_t, double, double>>{{3, 250, 0}, {3, 0, 30}}));
}

TEST_F(PredictedLatencyTest, MeasuresPredictionsAndWhatCameOfThem) {
  configure();
  request("200", "20");
  predictions();
  send_to(1);
  stream_answer();
  const auto page = harness_.metric_registry().render();
  const std::string plugin =
      "model_name=\"\",plugin_name=\"predicted-latency-producer\",plugin_type=\"predicted-latency-"
      "producer\",target_model_name=\"\"";
  const std::string models = R"(model_name="",target_model_name="")";
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string, std::string>>{
           {"request_predicted_ttft_seconds_sum", "0.3"},
           {"request_predicted_tpot_seconds_sum", "0.03"},
           {"request_ttft_prediction_duration_seconds_count", "1"},
           {"request_tpot_prediction_duration_seconds_count", "1"}}) {
    EXPECT_NE(page.find("llm_d_epp_" + name + "{" + plugin + "} " + value + "\n"), page.npos)
        << name;
    EXPECT_NE(page.find("inference_objective_" + name + "{" + models + "} " + value + "\n"),
              page.npos)
        << name;
  }
  EXPECT_NE(page.find("inference_objective_request_ttft_seconds_sum{" + models + "} 0.25\n"),
            page.npos);
  EXPECT_NE(page.find("inference_objective_request_tpot_seconds_sum{" + models + "} 0.03\n"),
            page.npos);
  for (const auto* type : {"tpot\"} 1\n", "ttft\"} 1\n"}) {
    EXPECT_NE(page.find("request_slo_violation_total{" + plugin + ",type=\"" + type), page.npos)
        << type;
    EXPECT_NE(
        page.find("inference_objective_request_slo_violation_total{" + models + ",type=\"" + type),
        page.npos)
        << type;
  }
  for (const auto& [type, value] :
       std::initializer_list<std::pair<std::string, std::string>>{{"ttft", "0.25"},
                                                                  {"tpot", "0.03"},
                                                                  {"predicted_ttft", "0.3"},
                                                                  {"predicted_tpot", "0.03"},
                                                                  {"ttft_prediction_duration", "0"},
                                                                  {"tpot_prediction_duration", "0"},
                                                                  {"ttft_slo_violation", "1"},
                                                                  {"tpot_slo_violation", "1"}}) {
    const std::string line = ",type=\"" + type + "\"} " + value + "\n";
    EXPECT_NE(page.find("llm_d_epp_inference_request_metric{" + plugin + line), page.npos) << type;
    EXPECT_NE(page.find("inference_objective_inference_request_metric{" + models + line), page.npos)
        << type;
  }
}

TEST_F(PredictedLatencyTest, TeachesWhatOtherAnswersTook) {
  configure("{}");
  request("200", "20");
  send_to(0);
  harness_.clock.advance(std::chrono::milliseconds(400));
  dynamic_cast<const ResponseHook&>(*producer_).on_first_chunk(harness_.context);
  end({.completion_tokens = 11, .present = true});
  EXPECT_EQ(predictor_->learnt, (std::vector<std::tuple<int64_t, double, double>>{{0, 400, 0}}));
}

TEST_F(PredictedLatencyTest, TakesDurationsAndNanoseconds) {
  for (const auto* ttl : {"5m", "300000000000"})
    EXPECT_TRUE(
        harness_.try_make(predicted_latency_producer(), "{contextTTL: " + std::string(ttl) + "}"));
  EXPECT_FALSE(harness_.try_make(predicted_latency_producer(), "{contextTTL: soon}"));
  EXPECT_FALSE(harness_.try_make(predicted_latency_producer(), "{sloBufferFactor: 0}"));
}

}  // namespace
}  // namespace llmd::plugins
