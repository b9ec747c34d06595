#include "admin/server.h"

#include "http/testing/wire.h"
#include "route/testing.h"

#include <gtest/gtest.h>

#include <fstream>

namespace llmd::admin {
namespace {

using http::testing::Wire;

class AdminServerTest : public ::testing::Test {
 protected:
  AdminServerTest()
      : director_(fleet_, metrics_, real_clock(), {.decision_history = 8}),
        server_(loop_, {.host = "127.0.0.1", .port = 0}, metrics_, director_,
                [this] { return why_; }) {
    EXPECT_TRUE(server_.listen());
  }

  /// The whole answer to one request.
  std::string ask(std::string_view request_line) {
    auto wire = Wire::connect(server_.port());
    EXPECT_TRUE(http::testing::pump(loop_, [&] { return io::connect_error(wire.fd()) == 0; }));
    wire.send(std::string(request_line) + " HTTP/1.1\r\nHost: " + host_ +
              "\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(wire.sees_end(loop_));
    return wire.seen();
  }

  std::string host_ = "localhost:9090";
  io::Loop loop_{0, 1};
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  route::Director director_;
  std::string why_;
  Server server_;
};

TEST_F(AdminServerTest, ServesTheMetricsPage) {
  metrics_.family({"x_total", metric::Kind::kCounter, "An x.", {}, {}, {}}).counter({}).add(2);
  const auto answer = ask("GET /metrics?name[]=x");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 "));
  EXPECT_NE(answer.find("text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.find("\nx_total 2\n"), std::string::npos);
}

TEST_F(AdminServerTest, AsksForTheTokenOfDebugPages) {
  Server guarded(loop_, {.host = "127.0.0.1", .port = 0, .debug_token = "open-sesame"}, metrics_,
                 director_, [] { return std::string(); });
  ASSERT_TRUE(guarded.listen());
  const auto status = [&](std::string_view path, std::string_view authorization) {
    auto wire = Wire::connect(guarded.port());
    EXPECT_TRUE(http::testing::pump(loop_, [&] { return io::connect_error(wire.fd()) == 0; }));
    wire.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
              std::string(authorization) + "\r\n");
    EXPECT_TRUE(wire.sees_end(loop_));
    return wire.seen().substr(9, 3);
  };
  EXPECT_EQ(status("/debug/endpoints", ""), "401");
  EXPECT_EQ(status("/debug/endpoints", "Authorization: Bearer open-sesam\r\n"), "401");
  EXPECT_EQ(status("/debug/endpoints", "Authorization: Bearer open-sesame!\r\n"), "401");
  EXPECT_EQ(status("/debug/endpoints", "Authorization: Basic open-sesame\r\n"), "401");
  EXPECT_EQ(status("/debug/endpoints", "authorization: bearer open-sesame\r\n"), "200");
  EXPECT_EQ(status("/metrics", ""), "200") << "scrapers need no token";
}

TEST(ReadTokenFile, TakesOneVisibleToken) {
  const auto path = ::testing::TempDir() + "token";
  const auto read = [&](std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
    return read_token_file(path);
  };
  EXPECT_EQ(*read("open-sesame\n"), "open-sesame");
  for (const auto* bad : {"", "short", "two tokens here", "open-sesame\nand-more"}) {
    const auto token = read(bad);
    ASSERT_FALSE(token) << bad;
    EXPECT_EQ(token.error().message.find("sesame"), std::string::npos) << "content in the message";
  }
  EXPECT_FALSE(read(std::string(5000, 'x')));
  EXPECT_FALSE(read_token_file("/nowhere/token"));
}

TEST_F(AdminServerTest, SaysWhyItIsNotReady) {
  EXPECT_TRUE(ask("GET /readyz").starts_with("HTTP/1.1 200 "));
  why_ = "draining";
  const auto answer = ask("GET /readyz");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 "));
  EXPECT_NE(answer.find("draining"), std::string::npos);
  EXPECT_TRUE(ask("GET /healthz").starts_with("HTTP/1.1 200 ")) << "alive while draining";
}

TEST_F(AdminServerTest, ShowsTheHealthOfEndpoints) {
  fleet_.set({{.name = "a", .address = "10.0.0.1", .port = 8000},
              {.name = "b", .address = "10.0.0.2", .port = 8000}});
  const fleet::Ejector ejector(fleet_, metrics_, {});
  const auto pool = fleet_.snapshot();
  ejector.failed(*pool->endpoints[1], fleet::Ejector::Cause::kConnect, *pool, real_clock().now());
  const auto answer = ask("GET /debug/endpoints");
  EXPECT_NE(answer.find(R"({"endpoints":[{"endpoint":"default/a","address":"10.0.0.1:8000",)"
                        R"("generation":1,"openRequests":0,"health":"healthy",)"
                        R"("ejectionsInARow":0,"secondsToProbe":0.0,"labels":{},"waiting":0,)"
                        R"("running":0,"kvUsage":0.0,"metricsAgeSeconds":null,"promptTokens":0,)"
                        R"("cachedTokens":0},)"),
            std::string::npos)
      << answer;
  EXPECT_NE(answer.find(R"("health":"ejected","ejectionsInARow":1,)"), std::string::npos);
}

TEST_F(AdminServerTest, ShowsPluginsAndStatesOfThePipeline) {
  EXPECT_TRUE(ask("GET /debug/plugins/state").starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(ask("GET /debug/plugins").starts_with("HTTP/1.1 503 "));
  director_.set_pipeline(route::testing::trivial_pipeline());
  EXPECT_NE(ask("GET /debug/plugins/state").find("\"plugins\":{}"), std::string::npos);
  EXPECT_NE(ask("GET /debug/plugins").find(R"("profiles":[{"name":"default","filters":[],)"),
            std::string::npos);
}

TEST_F(AdminServerTest, AnswersAboutDecisions) {
  EXPECT_NE(ask("GET /debug/decisions").find("\r\n\r\n{\"decisions\":[]}"), std::string::npos);
  const auto unknown = ask("GET /debug/decisions?request_id=a%2Fb");
  EXPECT_TRUE(unknown.starts_with("HTTP/1.1 404 "));
  EXPECT_NE(unknown.find("\r\n\r\nno decision is kept of request 'a/b'\n"), std::string::npos);
  EXPECT_TRUE(ask("GET /debug/decisions?id=a").starts_with("HTTP/1.1 400 "));
}

TEST_F(AdminServerTest, TrustsLoopbackPeersThatAskForNoSite) {
  for (const auto* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1:9090", "10.0.0.7", "[::1]:9090"}) {
    host_ = host;
    EXPECT_TRUE(ask("GET /debug/endpoints").starts_with("HTTP/1.1 200 ")) << host;
  }
  for (const auto* host :
       {"evil.example", "localhost.evil.example:9090", "127.0.0.1.evil.example"}) {
    host_ = host;
    EXPECT_TRUE(ask("GET /debug/endpoints").starts_with("HTTP/1.1 403 ")) << host;
    EXPECT_TRUE(ask("GET /metrics").starts_with("HTTP/1.1 200 ")) << host;
  }
}

TEST_F(AdminServerTest, ServesThePageUnderAStrictPolicy) {
  for (const auto* path : {"/", "/page.js", "/page.css", "/icon.svg"}) {
    const auto answer = ask(std::string("GET ") + path);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << path;
    EXPECT_NE(answer.find("default-src 'none'; script-src 'self'; style-src 'self'"),
              std::string::npos);
    EXPECT_NE(answer.find("X-Content-Type-Options: nosniff\r\n"), std::string::npos);
  }
}

TEST_F(AdminServerTest, RefusesOtherMethodsAndPaths) {
  const auto answer = ask("POST /debug/plugins/state");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 "));
  EXPECT_NE(answer.find("Allow: GET\r\n"), std::string::npos);
  EXPECT_TRUE(ask("GET /v1/models").starts_with("HTTP/1.1 404 "));
}

}  // namespace
}  // namespace llmd::admin
