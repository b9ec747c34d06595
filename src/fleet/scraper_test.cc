#include "fleet/scraper.h"

#include "http/server.h"
#include "http/testing/wire.h"

#include <gtest/gtest.h>

#include <numeric>

namespace llmd::fleet {
namespace {

using http::testing::pump;
using http::testing::settle;

class FixedSource final : public MetricsSource {
 public:
  const Options& options() const override { return options_; }
  Options options_;
};

class BuiltinExtractor final : public MetricsExtractor {
 public:
  BuiltinExtractor() { options_.engines = builtin_engines(); }
  const Options& options() const override { return options_; }
  Options options_;
};

/// A model server that answers every request with `status` and `page`.
class Engine {
 public:
  explicit Engine(io::Loop& loop)
      : server_(loop, {.host = "127.0.0.1"}, [this] { return std::make_unique<Handler>(*this); }) {
    EXPECT_TRUE(server_.listen());
  }
  uint16_t port() const { return server_.port(); }

  int status = 200;
  std::string page = "vllm:num_requests_waiting 3\n";
  int asked = 0;
  std::string authorization;  // of the last request

 private:
  struct Handler final : http::RequestHandler {
    explicit Handler(Engine& e) : engine(e) {}
    void on_request_end(http::Exchange& exchange, std::string_view) override {
      ++engine.asked;
      engine.authorization = exchange.head().headers.get("authorization");
      exchange.respond(engine.status, {}, engine.page);
    }
    Engine& engine;
  };
  http::Server server_;
};

class ScraperTest : public ::testing::Test {
 protected:
  ScraperTest() { options_.interval = std::chrono::milliseconds(1); }

  void start() {
    scraper_ = std::make_unique<Scraper>(loop_, fleet_, metrics_, options_);
    scraper_->configure({{&source_, &extractor_}}, nullptr);
  }
  EndpointSpec spec(const std::string& name, uint16_t port) const {
    return {.name = name, .address = "127.0.0.1", .port = port};
  }
  EndpointMetrics seen(size_t i = 0) const {
    return fleet_.snapshot()->endpoints[i]->metrics.load();
  }
  bool shows(std::string_view line) { return metrics_.render().find(line) != std::string::npos; }

  io::Loop loop_{0, 1};
  metric::Registry metrics_{1};
  Fleet fleet_;
  FixedSource source_;
  BuiltinExtractor extractor_;
  ScrapeOptions options_;
  std::unique_ptr<Scraper> scraper_;
};

TEST_F(ScraperTest, SendsTheKeyOfTheServers) {
  Engine engine(loop_);
  fleet_.set({spec("a", engine.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return engine.asked > 0; }));
  EXPECT_EQ(engine.authorization, "");
  scraper_->authorize("Bearer up-key");
  ASSERT_TRUE(pump(loop_, [&] { return engine.authorization == "Bearer up-key"; }));
}

TEST_F(ScraperTest, StoresWhatThePageSays) {
  Engine engine(loop_);
  fleet_.set({spec("a", engine.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return seen().ever_updated(); }));
  EXPECT_EQ(seen().waiting_queue_size, 3);
  EXPECT_EQ(seen().interval, options_.interval);
  EXPECT_EQ(scraper_->seen(), 1u);
}

TEST_F(ScraperTest, StoresDetails) {
  Engine engine(loop_);
  engine.page =
      "vllm:num_requests_waiting 0\n"
      "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"a\"} 1.7e9\n";
  fleet_.set({spec("a", engine.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return seen().ever_updated(); }));
  const auto details = fleet_.snapshot()->endpoints[0]->details.load();
  EXPECT_EQ(details->running_adapters, std::vector<std::string>{"a"});
}

TEST_F(ScraperTest, ReadsAttributesFromPagesOfTheirOwn) {
  Engine engine(loop_), exporter(loop_), elsewhere(loop_);
  exporter.page = "util 30\n";
  elsewhere.page = "util 60\n";
  FixedSource by_port, by_labels;
  by_port.options_.port = exporter.port();
  by_labels.options_.placed_by_labels = true;
  BuiltinExtractor first, second;
  first.options_ = {.attributes = {{.key = "gpu/a", .series = {"util", {}}, .factor = 0.01}}};
  second.options_ = {.attributes = {{.key = "gpu/b", .series = {"util", {}}, .factor = 0.01}}};
  auto endpoint = spec("a", engine.port());
  endpoint.labels = {{"metricsAddress", "127.0.0.1"},
                     {"metricsPort", std::to_string(elsewhere.port())}};
  fleet_.set({endpoint});
  scraper_ = std::make_unique<Scraper>(loop_, fleet_, metrics_, options_);
  scraper_->authorize("Bearer up-key");
  scraper_->configure({{&source_, &extractor_}, {&by_port, &first}, {&by_labels, &second}},
                      nullptr);
  const auto number = [&](std::string_view key) {
    return fleet_.snapshot()->endpoints[0]->details.digest().attribute(detail_key(key));
  };
  ASSERT_TRUE(
      pump(loop_, [&] { return seen().ever_updated() && number("gpu/a") && number("gpu/b"); }));
  EXPECT_EQ(number("gpu/a"), .3);
  EXPECT_EQ(number("gpu/b"), .6);
  EXPECT_EQ(seen().waiting_queue_size, 3);
  EXPECT_EQ(engine.authorization, "Bearer up-key");
  EXPECT_EQ(exporter.authorization, "") << "the servers' key is for them alone";
}

TEST_F(ScraperTest, AttributesDoNotMakeTheLoadFresh) {
  Engine exporter(loop_);
  exporter.page = "util 30\n";
  extractor_.options_ = {.attributes = {{.key = "gpu/a", .series = {"util", {}}}}};
  fleet_.set({spec("a", exporter.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return exporter.asked > 2; }));
  EXPECT_FALSE(seen().ever_updated());
  EXPECT_EQ(scraper_->seen(), 0u);
}

TEST_F(ScraperTest, FollowsMembership) {
  Engine a(loop_), b(loop_);
  fleet_.set({spec("a", a.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return a.asked > 0; }));
  fleet_.set({spec("b", b.port())});
  ASSERT_TRUE(pump(loop_, [&] { return b.asked > 0; }));
  settle(loop_);
  const int asked = a.asked;
  ASSERT_TRUE(pump(loop_, [&, before = b.asked] { return b.asked > before + 3; }));
  EXPECT_EQ(a.asked, asked) << "an endpoint that left is not scraped";
}

TEST_F(ScraperTest, GoesOnAfterFailuresAndCountsThem) {
  Engine engine(loop_);
  engine.status = 500;
  fleet_.set({spec("a", engine.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return engine.asked > 2; }));
  EXPECT_FALSE(seen().ever_updated());
  EXPECT_TRUE(shows("llm_d_epp_datalayer_poll_errors_total{source_type=\"\"} "));
  EXPECT_FALSE(shows("llm_d_epp_datalayer_poll_errors_total{source_type=\"\"} 0\n"));
  engine.status = 200;
  EXPECT_TRUE(pump(loop_, [&] { return seen().ever_updated(); }));
}

TEST_F(ScraperTest, RefusesAPageThatIsTooLarge) {
  Engine engine(loop_);
  engine.page = "vllm:num_requests_waiting 3\n" + std::string(100'000, '#') + "\n";
  options_.page_bytes_max = 50'000;
  fleet_.set({spec("a", engine.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return engine.asked > 1; }));
  EXPECT_FALSE(seen().ever_updated());
}

TEST_F(ScraperTest, ADeadEndpointDoesNotHoldUpTheOthers) {
  Engine engine(loop_);
  http::testing::WireListener silent;  // accepts and never answers
  options_.timeout = std::chrono::milliseconds(20);
  fleet_.set({spec("a", silent.port()), spec("b", engine.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return engine.asked > 5; }));
  EXPECT_FALSE(seen(0).ever_updated());
  EXPECT_TRUE(seen(1).ever_updated());
}

TEST_F(ScraperTest, StartsAFewTogetherAndNeverAll) {
  ManualClock clock;
  io::Loop loop(0, 1, clock);
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<EndpointSpec> specs;
  for (int i = 0; i < 32; ++i) {
    engines.push_back(std::make_unique<Engine>(loop));
    specs.push_back(spec(std::to_string(i), engines.back()->port()));
  }
  fleet_.set(specs);
  options_.interval = std::chrono::milliseconds(100);
  Scraper scraper(loop, fleet_, metrics_, options_);
  scraper.configure({{&source_, &extractor_}}, nullptr);
  const auto asked = [&] {
    return std::accumulate(engines.begin(), engines.end(), 0,
                           [](int sum, const auto& engine) { return sum + engine->asked; });
  };
  std::vector<int> bursts;
  for (int ms = 0; ms < 300; ++ms) {
    clock.advance(std::chrono::milliseconds(1));
    const int before = asked();
    settle(loop);
    if (ms >= 200 && asked() > before) bursts.push_back(asked() - before);
  }
  EXPECT_EQ(std::accumulate(bursts.begin(), bursts.end(), 0), 32) << "each once an interval";
  EXPECT_GT(bursts.size(), 1u);
  EXPECT_LE(bursts.size(), 4u) << "one turn in 25 ms";
}

TEST_F(ScraperTest, AsksIdleEndpointsLessOften) {
  Engine engine(loop_);
  engine.page = "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n";
  options_.idle_interval = std::chrono::seconds(60);
  fleet_.set({spec("a", engine.port())});
  start();
  ASSERT_TRUE(pump(loop_, [&] { return seen().ever_updated(); }));
  EXPECT_EQ(seen().interval, options_.idle_interval);
  for (int i = 0; i < 20; ++i) loop_.turn(std::chrono::milliseconds(1));
  EXPECT_EQ(engine.asked, 1);
}

TEST_F(ScraperTest, KeepsTheFastPaceWhileRequestsAreOpen) {
  Engine engine(loop_);
  engine.page = "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n";
  options_.idle_interval = std::chrono::seconds(60);
  fleet_.set({spec("a", engine.port())});
  fleet_.snapshot()->endpoints[0]->open_requests = 1;
  start();
  EXPECT_TRUE(pump(loop_, [&] { return engine.asked > 3; }));
  EXPECT_EQ(seen().interval, options_.interval);
}

}  // namespace
}  // namespace llmd::fleet
