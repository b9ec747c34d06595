#include "trace/exporter.h"

#include "http/server.h"
#include "http/testing/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmd::trace {
namespace {

using http::testing::pump;

/// A collector that answers with `status`.
class Collector {
 public:
  explicit Collector(io::Loop& loop)
      : server_(loop, {.host = "127.0.0.1"}, [this] { return std::make_unique<Handler>(*this); }) {
    EXPECT_TRUE(server_.listen());
  }
  uint16_t port() const { return server_.port(); }

  int status = 200;
  std::vector<std::string> bodies;
  std::string target, type, key;

 private:
  struct Handler final : http::RequestHandler {
    explicit Handler(Collector& c) : collector(c) {}
    void on_request_end(http::Exchange& exchange, std::string_view body) override {
      const HeaderView headers(exchange.head().headers);
      collector.target = exchange.head().target;
      collector.type = headers.get("content-type");
      collector.key = headers.get("x-key");
      collector.bodies.emplace_back(body);
      exchange.respond(collector.status, {}, "");
    }
    Collector& collector;
  };
  http::Server server_;
};

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() {
    settings_.host = "127.0.0.1";
    settings_.port = collector_.port();
    settings_.interval = std::chrono::milliseconds(1);
    settings_.headers = {{"x-key", "secret"}};
    settings_.attributes = {{"service.name", "llm-d-epp"}};
    tracer_.emplace(settings_, real_clock(), metrics_);
    exporter_.emplace(loop_, *tracer_, settings_,
                      http::Destination{*io::SocketAddress::parse("127.0.0.1", collector_.port())},
                      "1.0", metrics_);
  }

  void record() {
    Trace trace(arena_, rng_, real_clock(), {1, 1, 1, true}, 0, "request");
    trace.close_all();
    tracer_->finish(trace);
  }
  bool counted(std::string_view outcome, int n) {
    return metrics_.render().find("llmd_trace_spans_total{outcome=\"" + std::string(outcome) +
                                  "\"} " + std::to_string(n) + "\n") != std::string::npos;
  }

  io::Loop loop_{0, 1};
  Collector collector_{loop_};
  Settings settings_;
  metric::Registry metrics_{1};
  Rng rng_{1};
  Arena arena_;
  std::optional<Tracer> tracer_;
  std::optional<Exporter> exporter_;
};

TEST_F(ExporterTest, PostsWhatIsQueued) {
  record();
  record();
  exporter_->start();
  ASSERT_TRUE(pump(loop_, [&] { return counted("exported", 2); }));
  ASSERT_EQ(collector_.bodies.size(), 1u);
  EXPECT_EQ(collector_.target, "/v1/traces");
  EXPECT_EQ(collector_.type, "application/x-protobuf");
  EXPECT_EQ(collector_.key, "secret");
  for (const auto* part : {"service.name", "llm-d-epp", "llm-d-router/pkg/epp/handlers", "request"})
    EXPECT_NE(collector_.bodies[0].find(part), std::string::npos) << part;
}

TEST_F(ExporterTest, TriesAgainWhatTheCollectorMayTakeLater) {
  collector_.status = 503;
  record();
  exporter_->start();
  ASSERT_TRUE(pump(loop_, [&] { return collector_.bodies.size() == 1; }));
  collector_.status = 200;
  ASSERT_TRUE(pump(loop_, [&] { return counted("exported", 1); }));
  ASSERT_EQ(collector_.bodies.size(), 2u);
  EXPECT_EQ(collector_.bodies[0], collector_.bodies[1]);
}

TEST_F(ExporterTest, DropsWhatTheCollectorRefuses) {
  collector_.status = 400;
  record();
  exporter_->start();
  ASSERT_TRUE(pump(loop_, [&] { return counted("failed", 1); }));
  EXPECT_EQ(collector_.bodies.size(), 1u);
}

TEST_F(ExporterTest, GivesUpAfterAFewTries) {
  collector_.status = 503;
  record();
  exporter_->start();
  ASSERT_TRUE(pump(loop_, [&] { return counted("failed", 1); }));
  EXPECT_EQ(collector_.bodies.size(), 3u);
}

TEST_F(ExporterTest, FlushesAtTheEnd) {
  record();
  exporter_->flush(std::chrono::seconds(20));
  EXPECT_EQ(collector_.bodies.size(), 1u);
  EXPECT_TRUE(counted("exported", 1));
}

}  // namespace
}  // namespace llmd::trace
