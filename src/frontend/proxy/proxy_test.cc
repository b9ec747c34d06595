#include "frontend/proxy.h"

#include "proxy_handler.h"

#include "frontend/api_keys.h"
#include "http/testing/wire.h"
#include "route/testing.h"

#include <gtest/gtest.h>

#include <thread>

namespace llmd::frontend {
namespace {

using http::testing::pump;
using http::testing::settle;
using http::testing::Wire;
using http::testing::WireListener;

const std::string kPost =
    "POST /v1/completions?a=b HTTP/1.1\r\nHost: gw\r\nX-Request-Id: r1\r\n"
    "Content-Length: 5\r\n\r\nhello";

/// One loop of the proxy between a raw client and a raw endpoint, all on the test's thread.
struct ProxyTest : ::testing::Test {
  ProxyTest() {
    director.set_pipeline(route::testing::trivial_pipeline());
    fleet.set(route::testing::endpoints_at({listener.port()}));
    start({});
  }
  void start(ProxyOptions o, http::ServerOptions server = {}) {
    shared.reset();
    options = std::move(o);
    shared = std::make_unique<ProxyLoop>(loop, director, options);
    server.host = "127.0.0.1";
    shared->server = std::make_unique<http::Server>(
        loop, server, [this] { return std::make_unique<ProxyHandler>(*shared); });
    ASSERT_TRUE(shared->server->listen());
    served = "x-llm-d-served-endpoint: 127.0.0.1:" + std::to_string(listener.port()) + "\r\n";
  }
  Wire connect() { return Wire::connect(shared->server->port()); }
  /// A client whose request the endpoint has, with the begin of its answer when `answering`.
  std::pair<Wire, Wire> open_call(bool answering) {
    Wire client = connect();
    client.send(kPost);
    Wire endpoint = listener.accept(loop);
    EXPECT_TRUE(endpoint.sees(loop, "hello"));
    if (answering) {
      endpoint.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
      EXPECT_TRUE(client.sees(loop, "abc"));
    }
    return {std::move(client), std::move(endpoint)};
  }
  /// What the endpoint gets of a request with `lines`, less what every request has.
  std::string forwarded(const std::string& lines) {
    const std::string common = "GET /p HTTP/1.1\r\nHost: gw\r\nx-request-id: r\r\n";
    Wire client = connect();
    client.send(common + lines + "\r\n");
    Wire endpoint = listener.accept(loop);
    EXPECT_TRUE(endpoint.sees(loop, "\r\n\r\n"));
    EXPECT_TRUE(endpoint.seen().starts_with(common)) << endpoint.seen();
    return endpoint.seen().substr(common.size(), endpoint.seen().size() - common.size() - 2);
  }

  io::Loop loop{0, 1};
  metric::Registry metrics{1};
  fleet::Fleet fleet;
  WireListener listener;
  route::Director director{fleet, metrics, real_clock()};
  ProxyOptions options;
  std::unique_ptr<ProxyLoop> shared;
  std::string served;
};

TEST_F(ProxyTest, ForwardsTheRequestAndRelaysTheAnswer) {
  Wire client = connect();
  Wire endpoint;
  for (int i = 0; i < 3; ++i) {
    client.send(kPost);
    if (!endpoint) endpoint = listener.accept(loop);
    EXPECT_TRUE(endpoint.sees(loop, "hello"));
    EXPECT_EQ(endpoint.seen(),
              "POST /v1/completions?a=b HTTP/1.1\r\nHost: gw\r\nX-Request-Id: r1\r\n"
              "Content-Length: 5\r\n\r\nhello");
    endpoint.send("HTTP/1.1 201 Made\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_TRUE(client.sees(loop, "ok"));
    EXPECT_EQ(client.seen(), "HTTP/1.1 201 Created\r\nContent-Type: a/b\r\nx-request-id: r1\r\n" +
                                 served + "Content-Length: 2\r\n\r\nok");
    client.forget_seen();
    endpoint.forget_seen();
  }
  EXPECT_EQ(shared->client.connections_made(), 1u);
}

TEST_F(ProxyTest, CanHideTheEndpoint) {
  ProxyOptions hiding;
  hiding.hide_endpoint = true;
  start(hiding);
  Wire client = connect();
  client.send(kPost);
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "hello"));
  endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-llm-d-served-endpoint: fake\r\n\r\nok");
  EXPECT_TRUE(client.sees(loop, "ok"));
  EXPECT_EQ(client.seen().find("x-llm-d-served-endpoint"), std::string::npos);
}

TEST_F(ProxyTest, KeepsConnectionAndRoutingHeadersFromTheEndpoint) {
  Wire client = connect();
  client.send(
      "POST /p HTTP/1.1\r\nHost: gw\r\nConnection: close, X-A, Foo, Authorization, Host\r\n"
      "Foo: 1\r\nX-A: 2\r\nAuthorization: b\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
      "Upgrade: h2c\r\nProxy-Authorization: z\r\nx-gateway-destination-endpoint: 6.6.6.6:1\r\n"
      "X-Gateway-Destination-Endpoint-Subset: 6\r\nx-prefiller-host-port: 6\r\n"
      "x-encoder-hosts-ports: 6\r\nx-data-parallel-host-port: 6\r\n"
      "x-kv-cache-source-host-port: 6\r\nx-request-id: r\r\nContent-Length: 1\r\n\r\nx");
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "\r\n\r\nx"));
  EXPECT_EQ(endpoint.seen(),
            "POST /p HTTP/1.1\r\nHost: gw\r\nX-A: 2\r\nAuthorization: b\r\nx-request-id: r\r\n"
            "Content-Length: 1\r\n\r\nx");
  endpoint.send(
      "HTTP/1.1 200 OK\r\nConnection: keep-alive, Bar\r\nBar: 1\r\nKeep-Alive: 5\r\n"
      "X-Request-Id: theirs\r\nBaz: 2\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_TRUE(client.sees_end(loop));
  EXPECT_EQ(client.seen(), "HTTP/1.1 200 OK\r\nBaz: 2\r\nx-request-id: r\r\n" + served +
                               "Content-Length: 2\r\nConnection: close\r\n\r\nok");
}

TEST_F(ProxyTest, MakesARequestIdAndTellsBothSides) {
  Wire client = connect();
  client.send("GET /v1/models HTTP/1.1\r\nHost: gw\r\n\r\n");
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "\r\n\r\n"));
  const size_t at = endpoint.seen().find("x-request-id: ");
  ASSERT_NE(at, std::string::npos);
  const auto line = endpoint.seen().substr(at, 14 + 36);
  endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_TRUE(client.sees(loop, "ok"));
  EXPECT_NE(client.seen().find(line), std::string::npos);
}

TEST_F(ProxyTest, RelaysStreamsReadByRead) {
  Wire client = connect();
  client.send(kPost);
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "hello"));
  endpoint.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(client.sees(loop, "Transfer-Encoding: chunked\r\n\r\n"));
  client.forget_seen();
  endpoint.send("2\r\nab\r\n1\r\nc\r\n");
  EXPECT_TRUE(client.sees(loop, "3\r\nabc\r\n"));
  endpoint.send("1\r\nd\r\n0\r\n\r\n");
  EXPECT_TRUE(client.sees(loop, "0\r\n\r\n"));
  EXPECT_EQ(client.seen(), "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
  EXPECT_EQ(shared->client.idle_connections(), 1u);
}

TEST_F(ProxyTest, AnswersWithErrorsAsOpenAiClientsExpectThem) {
  Wire client = connect();
  client.send("POST /p HTTP/1.1\r\nHost: gw\r\nx-request-id: r\r\nContent-Length: 3\r\n\r\nbad");
  EXPECT_TRUE(client.sees(loop, "}}"));
  EXPECT_TRUE(client.seen().starts_with(
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nx-request-id: r\r\n"));
  EXPECT_TRUE(client.seen().ends_with(
      "{\"error\":{\"message\":\"inference error: BadRequest - unreadable\",\"type\":"
      "\"BadRequest\",\"param\":null,\"code\":400}}"))
      << client.seen();
  client.forget_seen();
  fleet.set({});
  settle(loop);
  client.send(kPost);
  EXPECT_TRUE(client.sees(loop, "}}"));
  EXPECT_NE(client.seen().find("x-llm-d-request-dropped-reason: rejected-no-endpoints\r\n"),
            std::string::npos);
}

TEST_F(ProxyTest, RefusesBodiesBeyondTheLimit) {
  http::ServerOptions server;
  server.body_bytes_max = 4;
  start({}, server);
  Wire client = connect();
  client.send(kPost);
  EXPECT_TRUE(client.sees_end(loop));
  EXPECT_TRUE(client.seen().starts_with(
      "HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nx-request-id: r1\r\n"))
      << client.seen();
  EXPECT_TRUE(
      client.seen().ends_with("{\"error\":{\"message\":\"request body too large: more than 4 "
                              "bytes\",\"type\":\"ResourceExhausted\","
                              "\"param\":null,\"code\":413}}"))
      << client.seen();
}

TEST_F(ProxyTest, LetsTheSessionReplyWhenTheEndpointFailsBeforeItsHead) {
  Wire client = connect();
  client.send(kPost);
  {
    Wire endpoint = listener.accept(loop);
    EXPECT_TRUE(endpoint.sees(loop, "hello"));
  }
  EXPECT_TRUE(client.sees(loop, "}}"));
  EXPECT_TRUE(client.seen().starts_with("HTTP/1.1 503 "));
  client.forget_seen();
  listener.close();
  client.send(kPost);
  EXPECT_TRUE(client.sees(loop, "cannot connect"));
  EXPECT_TRUE(client.seen().starts_with("HTTP/1.1 503 "));
}

TEST_F(ProxyTest, ShowsALaterBreakAsABreak) {
  for (const char* framing :
       {"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "Content-Length: 11\r\n\r\nabc"}) {
    Wire client = connect();
    client.send(kPost);
    Wire endpoint = listener.accept(loop);
    EXPECT_TRUE(endpoint.sees(loop, "hello"));
    endpoint.send("HTTP/1.1 200 OK\r\n" + std::string(framing));
    EXPECT_TRUE(client.sees(loop, "abc"));
    endpoint.close();
    EXPECT_TRUE(client.sees_end(loop));
    EXPECT_EQ(client.seen().find("0\r\n\r\n"), std::string::npos);
  }
  EXPECT_EQ(shared->director.active_sessions(), 0u);
}

TEST_F(ProxyTest, TellsTheClientOfAnEvictionOrBreaksItsAnswerOff) {
  auto pipeline = route::testing::trivial_pipeline();
  const auto* evictor = own(*pipeline, std::make_unique<route::testing::Evictor>());
  pipeline->pre_request.push_back({evictor, {}});
  director.set_pipeline(pipeline);
  settle(loop);
  for (const bool answering : {false, true}) {
    auto [client, endpoint] = open_call(answering);
    evictor->evict();
    EXPECT_TRUE(endpoint.sees_end(loop));
    if (answering) {
      EXPECT_TRUE(client.sees_end(loop));
      EXPECT_EQ(client.seen().find("0\r\n\r\n"), std::string::npos);
    } else {
      EXPECT_TRUE(client.sees(loop, "}}"));
      EXPECT_TRUE(client.seen().starts_with("HTTP/1.1 429 "));
      EXPECT_NE(client.seen().find("x-llm-d-request-dropped-reason: evicted\r\n"),
                std::string::npos);
      EXPECT_NE(client.seen().find("\"message\":\"request evicted by flow control\""),
                std::string::npos);
    }
  }
}

TEST_F(ProxyTest, AbortsUpstreamWhenTheClientLeaves) {
  for (const bool answering : {false, true}) {
    auto [client, endpoint] = open_call(answering);
    client.close();
    EXPECT_TRUE(endpoint.sees_end(loop));
    EXPECT_EQ(shared->director.active_sessions(), 0u);
  }
}

TEST_F(ProxyTest, RelaysAnAnswerThatComesBeforeTheRequestIsSent) {
  const std::string body(20 << 20, 'x');
  const std::string bytes =
      "POST /p HTTP/1.1\r\nHost: gw\r\nContent-Length: 20971520\r\n\r\n" + body;
  Wire client = connect();
  size_t sent = 0;
  EXPECT_TRUE(pump(loop, [&] {
    sent += client.send_some(std::string_view(bytes).substr(sent));
    return sent == bytes.size();
  }));
  Wire endpoint = listener.accept(loop);
  endpoint.send("HTTP/1.1 429 Slow Down\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_TRUE(client.sees(loop, "no"));
  EXPECT_TRUE(client.seen().starts_with("HTTP/1.1 429 "));
  settle(loop);
  EXPECT_EQ(shared->client.connections(), 0u);
}

TEST_F(ProxyTest, MakesTheEndpointWaitForASlowReader) {
  Wire client = connect();
  client.send(kPost);
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "hello"));
  endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n");
  const std::string block(1 << 20, 'x');
  size_t sent = 0;
  const size_t before = loop.buffers().system_allocations();
  for (int i = 0; i < 60; ++i) {
    sent += endpoint.send_some(block);
    settle(loop);
  }
  EXPECT_LT(sent, 29'000'000u);
  EXPECT_LE(loop.buffers().system_allocations() - before, 4u) << "one read's worth is kept";
  size_t seen = 0;
  EXPECT_TRUE(pump(loop, [&] {
    if (sent < 30'000'000)
      sent += endpoint.send_some(std::string_view(block).substr(0, 30'000'000 - sent));
    client.look(1 << 20);
    seen += client.seen().size();
    client.forget_seen();
    return seen > 30'000'000;
  }));
}

TEST_F(ProxyTest, RelaysBodilessAnswersAndHints) {
  Wire client = connect();
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: gw\r\n\r\n");
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "HEAD "));
  endpoint.send(
      "HTTP/1.1 103 Early Hints\r\nLink: l\r\n\r\n"
      "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n");
  EXPECT_TRUE(client.sees(loop, "Content-Length: 50\r\n\r\n"));
  EXPECT_TRUE(client.seen().starts_with("HTTP/1.1 103 Early Hints\r\nLink: l\r\n\r\nHTTP/1.1 200"));
  client.forget_seen();
  client.send("GET /v1/models HTTP/1.1\r\nHost: gw\r\n\r\n");
  EXPECT_TRUE(endpoint.sees(loop, "GET "));
  endpoint.send("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_TRUE(client.sees(loop, "\r\n\r\n"));
  EXPECT_EQ(client.seen().find("Transfer-Encoding"), std::string::npos);
}

TEST_F(ProxyTest, ServesChunkedAndPipelinedRequests) {
  Wire client = connect();
  client.send(
      "POST /p HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n" +
      kPost);
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "Content-Length: 3\r\n\r\nabc"));
  endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none");
  EXPECT_TRUE(endpoint.sees(loop, "hello"));
  endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
  EXPECT_TRUE(client.sees(loop, "two"));
}

TEST_F(ProxyTest, DropsAnOfferOfH2c) {
  EXPECT_EQ(forwarded("Upgrade: h2c\r\nHTTP2-Settings: AAMA\r\nX: 1\r\n"), "X: 1\r\n");
}

TEST_F(ProxyTest, PassesControlsOnUnlessClientsAreUntrusted) {
  ProxyOptions wary;
  wary.untrusted_clients = true;
  start(wary);
  EXPECT_EQ(
      forwarded(
          "X-LLM-D-Inference-Objective: o\r\nx-gateway-inference-objective: o\r\n"
          "x-llm-d-inference-fairness-id: f\r\nx-gateway-inference-fairness-id: f\r\n"
          "x-llm-d-model-name-rewrite: m\r\nx-gateway-model-name-rewrite: m\r\nX-Other: y\r\n"),
      "X-Other: y\r\n");
  start({});
  EXPECT_EQ(metrics.render().find("fairness_id=\"f\""), std::string::npos);
  EXPECT_EQ(forwarded("x-llm-d-inference-objective: o\r\nX-Gateway-Inference-Fairness-Id: f\r\n"),
            "x-llm-d-inference-objective: o\r\nX-Gateway-Inference-Fairness-Id: f\r\n");
}

CredentialsPtr credentials(std::string_view client_keys, std::string upstream = {}) {
  auto made = std::make_shared<Credentials>();
  if (!client_keys.empty())
    made->client_keys = std::make_shared<const ApiKeys>(*ApiKeys::parse(client_keys));
  made->upstream_authorization = std::move(upstream);
  return made;
}

TEST_F(ProxyTest, AsksForKeysAndKeepsThem) {
  ProxyOptions asking;
  asking.credentials = credentials("sk-blue-key fairness-id=blue objective=batch\nsk-any-key\n");
  auto& refusals = metrics.family({"refusals", metric::Kind::kCounter, "", {"reason"}, {}, {}});
  asking.refused_without_key = refusals.counter(std::array<std::string_view, 1>{"missing"});
  asking.refused_with_unknown_key = refusals.counter(std::array<std::string_view, 1>{"unknown"});
  start(asking);
  for (const auto* line :
       {"", "Authorization: Bearer sk-other-key\r\n", "x-api-key: sk-other-key\r\n",
        "Authorization: Basic sk-any-key\r\n", "Authorization: sk-any-key\r\n"}) {
    Wire client = connect();
    client.send("GET /p HTTP/1.1\r\nHost: gw\r\n" + std::string(line) + "\r\n");
    EXPECT_TRUE(client.sees(loop, "\"code\":\"invalid_api_key\"}}")) << line;
    EXPECT_TRUE(client.seen().starts_with("HTTP/1.1 401 ")) << client.seen();
    EXPECT_NE(client.seen().find("WWW-Authenticate: Bearer\r\n"), std::string::npos);
    EXPECT_EQ(client.seen().find("sk-"), std::string::npos);
  }
  EXPECT_NE(metrics.render().find("refusals{reason=\"missing\"} 3\n"), std::string::npos);
  EXPECT_NE(metrics.render().find("refusals{reason=\"unknown\"} 2\n"), std::string::npos);

  EXPECT_EQ(forwarded("Authorization: Bearer sk-any-key\r\nX-API-Key: y\r\nX: 1\r\n"), "X: 1\r\n");
  EXPECT_EQ(forwarded("x-api-key: sk-blue-key\r\nx-gateway-inference-fairness-id: red\r\n"),
            "x-llm-d-inference-fairness-id: blue\r\nx-llm-d-inference-objective: batch\r\n");
}

TEST_F(ProxyTest, SendsItsOwnKeyInsteadOfTheClients) {
  ProxyOptions sending;
  sending.credentials = credentials({}, "Bearer up-key-1");
  start(sending);
  EXPECT_EQ(
      forwarded(
          "Authorization: Bearer theirs\r\nx-api-key: theirs\r\nConnection: Authorization\r\n"),
      "Authorization: Bearer up-key-1\r\n");
  shared->credentials = credentials({}, "Bearer up-key-2");
  EXPECT_EQ(forwarded(""), "Authorization: Bearer up-key-2\r\n");
}

TEST(Proxy, RunsItsLoopsAndStopsGracefully) {
  metric::Registry metrics(3);
  fleet::Fleet fleet;
  WireListener listener;
  fleet.set(route::testing::endpoints_at({listener.port()}));
  route::Director director(fleet, metrics, real_clock());
  director.set_pipeline(route::testing::trivial_pipeline());
  ProxyOptions options{.host = "127.0.0.1", .port = 0, .loops = 2};
  const double bounds[] = {0.001, 1};
  options.forward_delay =
      metrics
          .family(
              {.name = "delay", .kind = metric::Kind::kHistogram, .help = "d", .buckets = bounds})
          .histogram({});
  Proxy proxy(director, fleet, options);
  ASSERT_TRUE(proxy.start());
  io::Loop loop(2, 1);  // plays the peers
  Wire client = Wire::connect(proxy.port());
  client.send(kPost);
  Wire endpoint = listener.accept(loop);
  EXPECT_TRUE(endpoint.sees(loop, "hello"));
  EXPECT_EQ(proxy.open_requests(), 1u);
  std::thread stopping([&] { proxy.stop(std::chrono::seconds(30)); });
  EXPECT_TRUE(pump(loop, [&] {
    Wire late = Wire::connect(proxy.port());
    settle(loop);
    late.look();
    return late.was_reset() || late.ended();
  }));
  endpoint.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_TRUE(client.sees_end(loop));
  EXPECT_NE(client.seen().find("Connection: close\r\n\r\nok"), std::string::npos);
  stopping.join();
  EXPECT_NE(metrics.render().find("delay_count 1"), std::string::npos);
}

}  // namespace
}  // namespace llmd::frontend
