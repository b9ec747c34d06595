#include "render/render_client.h"

#include "fleet/static_discovery.h"
#include "http/server.h"
#include "http/testing/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmd::render {
namespace {

using http::testing::pump;

/// A model server that answers what it is told to.
class Renderer {
 public:
  explicit Renderer(io::Loop& loop)
      : server_(loop, {.host = "127.0.0.1"}, [this] { return std::make_unique<Handler>(*this); }) {
    EXPECT_TRUE(server_.listen());
  }
  uint16_t port() const { return server_.port(); }

  int status = 200;
  std::string answer = R"({"token_ids":[1,2,3]})";
  bool silent = false;
  std::vector<std::string> calls;  // path and body

 private:
  struct Handler final : http::RequestHandler {
    explicit Handler(Renderer& r) : renderer(r) {}
    void on_request_end(http::Exchange& exchange, std::string_view body) override {
      renderer.calls.push_back(std::string(exchange.head().target) + " " + std::string(body));
      if (!renderer.silent) exchange.respond(renderer.status, {}, renderer.answer);
    }
    Renderer& renderer;
  };
  http::Server server_;
};

struct Bench {
  /// Asks and waits for what comes of it.
  Rendered render(bool chat, Nanos timeout = std::chrono::seconds(5)) {
    int woken = 0;
    const schedule::Signal resume(std::make_shared<std::function<void()>>([&woken] { ++woken; }));
    auto ticket = client.ask(server(), {.chat = chat, .body = "{}", .timeout = timeout}, resume);
    if (!ticket) return fail(std::move(ticket).error());
    EXPECT_FALSE(client.take(*ticket)) << "not yet";
    if (renderer.silent) {
      pump(loop, [&] { return !renderer.calls.empty(); });
      clock.advance(timeout + std::chrono::milliseconds(2));
    }
    pump(loop, [&] { return woken > 0; });
    EXPECT_EQ(woken, 1);
    auto prompts = client.take(*ticket);
    EXPECT_FALSE(client.take(*ticket)) << "only once";
    return prompts;
  }
  fleet::EndpointSpec server() const {
    return *fleet::parse_endpoint_flag("http://127.0.0.1:" + std::to_string(port));
  }
  std::string error(bool chat = true, Nanos timeout = std::chrono::seconds(5)) {
    const auto prompts = render(chat, timeout);
    return prompts ? "" : prompts.error().message;
  }

  ManualClock clock;
  io::Loop loop{0, 1, clock};
  metric::Registry metrics{1};
  Renderer renderer{loop};
  uint16_t port = renderer.port();
  RenderClient client{loop, fleet::system_resolver(), metrics};
};

TEST(RenderClient, AsksTheEndpointOfTheRequestsKind) {
  Bench bench;
  const auto chat = bench.render(true);
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ((*chat)[0].token_ids, (std::vector<uint32_t>{1, 2, 3}));
  bench.renderer.answer = R"([{"token_ids":[4]},{"token_ids":[5]}])";
  const auto text = bench.render(false);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->size(), 2u);
  EXPECT_EQ(bench.renderer.calls, (std::vector<std::string>{"/v1/chat/completions/render {}",
                                                            "/v1/completions/render {}"}));
  EXPECT_TRUE(bench.metrics.render().contains("llmd_render_calls_total{result=\"answered\"} 2"));
}

TEST(RenderClient, WarmsAServerUp) {
  Bench bench;
  auto& calls = bench.renderer.calls;
  bench.renderer.status = 503;
  bench.client.warm_up(
      *fleet::parse_endpoint_flag("http://127.0.0.1:" + std::to_string(bench.port)),
      {.model = "m\"",
       .timeout = std::chrono::seconds(5),
       .media_timeout = std::chrono::seconds(30)});
  pump(bench.loop, [&] { return calls.size() == 1; });
  const std::string chat = "/v1/chat/completions/render ";
  EXPECT_EQ(calls[0], chat + R"({"model":"m\"","messages":[{"role":"user","content":"warmup"}]})");
  // The answer has come when the pause can begin.
  for (int i = 0; i < 100; ++i) bench.loop.turn(Nanos(0));
  bench.renderer.status = 200;
  bench.clock.advance(RenderClient::kWarmUpPause + std::chrono::milliseconds(2));
  pump(bench.loop, [&] { return calls.size() == 3; });
  EXPECT_EQ(calls[1], calls[0]);
  EXPECT_TRUE(calls[2].contains("data:image/png;base64,iVBORw0KGgo")) << calls[2];
  EXPECT_FALSE(bench.metrics.render().contains("llmd_render_calls_total{result=\"failed\"} 1"));
}

TEST(RenderClient, PassesOnWhatTheServerSaidInPart) {
  Bench bench;
  bench.renderer.status = 404;
  bench.renderer.answer = "no such model " + std::string(5000, 'x');
  const std::string error = bench.error();
  EXPECT_TRUE(error.starts_with("status 404: no such model xxx")) << error;
  EXPECT_EQ(error.size(), std::string("status 404: ").size() + 1024);
  EXPECT_TRUE(bench.metrics.render().contains("llmd_render_calls_total{result=\"failed\"} 1"));
}

TEST(RenderClient, GivesUpWhenThereIsNoAnswerInTime) {
  Bench bench;
  bench.renderer.silent = true;
  EXPECT_EQ(bench.error(true, std::chrono::seconds(3)), "no answer in time");
}

TEST(RenderClient, RefusesAnswersThatAreNone) {
  Bench bench;
  bench.renderer.answer = "[]";
  EXPECT_EQ(bench.error(false), "there is no list of rendered prompts");
}

TEST(RenderClient, LeavesAServerAloneThatCannotBeReached) {
  Bench bench;
  uint16_t closed;
  {
    Renderer gone(bench.loop);
    closed = gone.port();
  }
  bench.port = closed;
  EXPECT_EQ(bench.error(), "cannot connect");
  EXPECT_TRUE(bench.error().ends_with("cannot be reached"));
  bench.port = bench.renderer.port();  // others are not concerned
  EXPECT_EQ(bench.error(), "");
  bench.port = closed;
  bench.clock.advance(RenderClient::kPause);
  EXPECT_EQ(bench.error(), "cannot connect");
}

TEST(RenderClient, BoundsWhatIsUnderWay) {
  Bench bench;
  bench.renderer.silent = true;
  const auto ask = [&] {
    return bench.client.ask(bench.server(), {.body = "{}", .timeout = std::chrono::seconds(1)}, {});
  };
  for (size_t i = 0; i < RenderClient::kQuestionsMax; ++i) ASSERT_TRUE(ask());
  EXPECT_EQ(ask().error().message, "too many prompts are being rendered");
}

}  // namespace
}  // namespace llmd::render
