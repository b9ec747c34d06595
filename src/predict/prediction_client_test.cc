#include "predict/prediction_client.h"

#include "http/server.h"
#include "http/testing/wire.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmd::predict {
namespace {

using http::testing::pump;
using http::testing::settle;
using schedule::Progress;
using schedule::testing::Harness;

/// Predicts for each row as many milliseconds as it has input tokens, when told to answer.
class Predictor {
 public:
  explicit Predictor(io::Loop& loop)
      : server_(loop, {.host = "127.0.0.1"}, [this] { return std::make_unique<Handler>(*this); }) {
    EXPECT_TRUE(server_.listen());
  }
  uint16_t port() const { return server_.port(); }

  int status = 200;
  std::string answer;                       // instead of predictions
  bool silent = false;                      // never answers
  std::vector<std::string> calls, samples;  // bodies

 private:
  struct Handler final : http::RequestHandler {
    explicit Handler(Predictor& p) : predictor(p) {}
    void on_request_end(http::Exchange& exchange, std::string_view body) override {
      auto& p = predictor;
      const bool teaches = exchange.head().target == "/add_training_data_bulk";
      (teaches ? p.samples : p.calls).emplace_back(body);
      if (teaches) return exchange.respond(202, {}, "");
      if (p.silent) return;
      exchange.respond(p.status, {}, p.answer.empty() ? predictions(body) : p.answer);
    }
    static std::string predictions(std::string_view body) {
      constexpr std::string_view kField = "\"input_token_length\":";
      std::string out;
      for (size_t at = body.find(kField); at != body.npos; at = body.find(kField, at + 1)) {
        const auto number =
            body.substr(at + kField.size(), body.find(',', at) - at - kField.size());
        out += (out.empty() ? R"({"ttft_ms":)" : R"(,{"ttft_ms":)") + std::string(number) +
               R"(,"tpot_ms":1})";
      }
      return R"({"predictions":[)" + out + "]}";
    }
    Predictor& predictor;
  };
  http::Server server_;
};

/// One request that asks about endpoints with these numbers of tokens.
class Asking {
 public:
  Asking(LatencyPredictor& predictor, const std::vector<int64_t>& tokens) : predictor_(predictor) {
    for (const int64_t n : tokens) features_.push_back({.input_tokens = n});
    latencies_.resize(tokens.size());
    harness_.context.make_resume = [this] {
      return schedule::Signal(std::make_shared<std::function<void()>>([this] { woken = true; }));
    };
    outcome = predictor_.predict(harness_.context, ticket_, features_, latencies_);
  }
  bool suspended() const { return outcome && *outcome == Progress::kSuspended; }
  /// The first tokens' times; empty on an error.
  std::vector<double> collect() {
    outcome = predictor_.predict(harness_.context, ticket_, features_, latencies_);
    std::vector<double> times;
    if (outcome && *outcome == Progress::kDone)
      for (const auto& latency : latencies_) times.push_back(latency.ttft_ms);
    return times;
  }

  bool woken = false;
  Result<Progress> outcome = Progress::kDone;

 private:
  LatencyPredictor& predictor_;
  Harness harness_{1};
  uint64_t ticket_ = 0;
  std::vector<LatencyFeatures> features_;
  std::vector<PredictedLatency> latencies_;
};

class PredictionClientTest : public ::testing::Test {
 protected:
  PredictionClientTest() {
    const fleet::EndpointSpec server{
        .name = "predictor", .address = "127.0.0.1", .port = predictor_.port()};
    options_.predictors = {server};
    options_.trainer = server;
  }
  PredictionClient& client() {
    if (!client_)
      client_ = std::make_unique<PredictionClient>(
          loop_, options_, [](const std::string&) { return std::vector<std::string>(); }, metrics_);
    return *client_;
  }
  bool shows(std::string_view line) { return metrics_.render().find(line) != std::string::npos; }

  ManualClock clock_;
  io::Loop loop_{0, 1, clock_};
  metric::Registry metrics_{1};
  Predictor predictor_{loop_};
  ServiceOptions options_;
  std::unique_ptr<PredictionClient> client_;
};

TEST_F(PredictionClientTest, AnswersTheRequestsOfAWindowTogether) {
  Asking a(client(), {100, 200}), b(client(), {300});
  ASSERT_TRUE(a.suspended() && b.suspended());
  settle(loop_);
  EXPECT_TRUE(predictor_.calls.empty()) << "the window is open";
  clock_.advance(std::chrono::milliseconds(2));
  ASSERT_TRUE(pump(loop_, [&] { return a.woken && b.woken; }));
  EXPECT_EQ(predictor_.calls.size(), 1u);
  EXPECT_EQ(a.collect(), (std::vector<double>{100, 200}));
  EXPECT_EQ(b.collect(), (std::vector<double>{300}));
  EXPECT_TRUE(shows("llmd_prediction_calls_total{result=\"answered\"} 1\n"));
}

TEST_F(PredictionClientTest, SplitsManyRows) {
  options_.rows_max = 4;
  options_.calls_max = 2;
  std::vector<int64_t> tokens;
  std::vector<double> expected;
  for (int i = 1; i <= 19; ++i) {
    tokens.push_back(i);
    expected.push_back(i);
  }
  Asking a(client(), tokens);
  ASSERT_TRUE(pump(loop_, [&] { return a.woken; }));
  EXPECT_EQ(predictor_.calls.size(), 5u);
  EXPECT_EQ(a.collect(), expected);
}

TEST_F(PredictionClientTest, FailsWhatIsNotAnswered) {
  options_.window = Nanos(0);
  const struct {
    int status;
    const char* answer;
  } kCases[] = {{500, "no"}, {200, "{"}, {200, R"({"predictions":[]})"}};
  for (const auto& c : kCases) {
    predictor_.status = c.status;
    predictor_.answer = c.answer;
    Asking a(client(), {1});
    ASSERT_TRUE(pump(loop_, [&] { return a.woken; })) << c.answer;
    EXPECT_TRUE(a.collect().empty());
    EXPECT_FALSE(a.outcome);
  }
  predictor_.status = 200;
  predictor_.answer.clear();
  Asking after(client(), {7});
  ASSERT_TRUE(pump(loop_, [&] { return after.woken; }));
  EXPECT_EQ(after.collect(), (std::vector<double>{7}));
}

TEST_F(PredictionClientTest, GivesUpInTime) {
  options_.window = Nanos(0);
  predictor_.silent = true;
  Asking a(client(), {1});
  ASSERT_TRUE(pump(loop_, [&] { return predictor_.calls.size() == 1; }));
  clock_.advance(options_.timeout + std::chrono::milliseconds(2));
  ASSERT_TRUE(pump(loop_, [&] { return a.woken; }));
  EXPECT_TRUE(a.collect().empty());
  EXPECT_TRUE(shows("llmd_prediction_calls_total{result=\"failed\"} 1\n"));
}

TEST_F(PredictionClientTest, RefusesAtOnceWhileNobodyIsThere) {
  options_.window = Nanos(0);
  {
    const http::testing::WireListener closed;
    options_.predictors[0].port = closed.port();
  }
  Asking first(client(), {1});
  ASSERT_TRUE(pump(loop_, [&] { return first.woken; }));
  EXPECT_TRUE(first.collect().empty());
  Asking second(client(), {1});
  EXPECT_FALSE(second.outcome) << "not suspended";
  clock_.advance(PredictionClient::kPause + std::chrono::milliseconds(1));
  EXPECT_TRUE(Asking(client(), {1}).suspended());
}

TEST_F(PredictionClientTest, ForgetsWhatNobodyCollectsAndBoundsWhoWaits) {
  predictor_.silent = true;
  std::vector<std::unique_ptr<Asking>> many;
  many.reserve(PredictionClient::kAsksMax);
  for (size_t i = 0; i < PredictionClient::kAsksMax; ++i)
    many.push_back(std::make_unique<Asking>(client(), std::vector<int64_t>{1}));
  EXPECT_TRUE(many.back()->suspended());
  EXPECT_FALSE(Asking(client(), {1}).outcome);
  clock_.advance(std::chrono::milliseconds(2));
  settle(loop_);
  for (int i = 0; i < 10 && !many.back()->woken; ++i) {
    clock_.advance(options_.timeout);
    settle(loop_);
  }
  ASSERT_TRUE(many.back()->woken);
  for (int i = 0; i < 3; ++i) {  // flushes sweep
    clock_.advance(std::chrono::seconds(2));
    settle(loop_);
  }
  EXPECT_TRUE(Asking(client(), {1}).suspended());
}

TEST_F(PredictionClientTest, SendsSamplesAtIntervals) {
  options_.samples_max = 4;
  for (int i = 0; i < 10; ++i) client().learn({.input_tokens = i}, {.ttft_ms = 5}, {});
  client().learn({.input_tokens = 77}, {.tpot_ms = 5}, {});
  settle(loop_);
  EXPECT_TRUE(predictor_.samples.empty());
  clock_.advance(options_.flush_interval + std::chrono::milliseconds(2));
  ASSERT_TRUE(pump(loop_, [&] { return predictor_.samples.size() == 1; }));
  const auto& body = predictor_.samples[0];
  EXPECT_TRUE(body.starts_with(R"({"entries":[{)") && body.ends_with("}]}")) << body;
  size_t count = 0;
  for (size_t at = body.find("actual_ttft_ms"); at != body.npos;
       at = body.find("actual_ttft_ms", at + 1))
    ++count;
  EXPECT_EQ(count, 3u) << "two of the ten, and the one of the other kind";
  EXPECT_NE(body.find(R"("input_token_length":77)"), std::string::npos);
  ASSERT_TRUE(
      pump(loop_, [&] { return shows("llmd_prediction_samples_total{result=\"sent\"} 3\n"); }));
  EXPECT_TRUE(shows("llmd_prediction_samples_total{result=\"dropped\"} 8\n"));
}

}  // namespace
}  // namespace llmd::predict
