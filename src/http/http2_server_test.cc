#include "grpc/testing/client.h"
#include "http/http2_client.h"
#include "http/server.h"
#include "http/testing/wire.h"

#include <gtest/gtest.h>

#include <list>
#include <memory>

namespace llmd::http {
namespace {

using namespace std::literals;
using grpc::testing::TestClient;
using testing::pump;
using testing::settle;

/// What the handlers of a test do and have heard.
struct Script {
  std::function<void(Exchange&, std::string_view body)> on_end =
      [](Exchange& e, std::string_view body) { e.respond(200, {{"X-Kind", "echo"}}, body); };
  std::function<void(Exchange&)> on_request = [](Exchange&) {};
  std::function<void(Exchange&, int, std::string_view)> on_refused;
  std::vector<std::string> heard;
  Exchange* last = nullptr;
  int writable = 0;
};

class ScriptHandler final : public RequestHandler {
 public:
  explicit ScriptHandler(Script& script) : script_(script) {}
  void on_request(Exchange& e) override {
    script_.last = &e;
    std::string line(e.head().method);
    line.append(" ").append(e.head().target);
    for (const auto& [name, value] : e.head().headers)
      line.append(" ").append(name).append("=").append(value);
    script_.heard.push_back(line);
    script_.on_request(e);
  }
  void on_body(Exchange&, std::string_view body) override {
    script_.heard.push_back("body " + std::to_string(body.size()));
  }
  void on_request_end(Exchange& e, std::string_view body) override { script_.on_end(e, body); }
  void on_writable(Exchange&) override { ++script_.writable; }
  void on_refused(Exchange& e, int status, std::string_view what) override {
    if (!script_.on_refused) return RequestHandler::on_refused(e, status, what);
    script_.on_refused(e, status, what);
  }
  void on_abort(Exchange&, AbortCause cause) override {
    constexpr const char* kNames[] = {"client gone", "client stalled", "bad request", "shutdown"};
    script_.heard.push_back("abort: "s + kNames[static_cast<size_t>(cause)]);
  }

 private:
  Script& script_;
};

struct Http2ServerTest : ::testing::Test {
  void start(ServerOptions options = {}) {
    options.host = "127.0.0.1";
    options.http2 = true;
    server = std::make_unique<Server>(loop, std::move(options),
                                      [this] { return std::make_unique<ScriptHandler>(script); });
    ASSERT_TRUE(server->listen());
  }
  void pass(Nanos time) {
    clock.advance(time);
    settle(loop);
  }
  ::testing::AssertionResult closed(TestClient& client, int32_t id) {
    return client.until(loop, [&] { return client.replies[id].closed; });
  }

  ManualClock clock;
  io::Loop loop{0, 1, clock};
  Script script;
  std::unique_ptr<Server> server;
};

TEST_F(Http2ServerTest, AnswersRequestsWithTheirHeadsAsOfHttp1) {
  start();
  TestClient client(server->port());
  const auto id = client.open("/p?q=1", {{"cookie", "a=1"}, {"cookie", "b=2"}});
  client.send_raw(id, "hello");
  client.end(id);
  EXPECT_TRUE(closed(client, id));
  EXPECT_EQ(client.replies[id].headers[":status"], "200");
  EXPECT_EQ(client.replies[id].headers["x-kind"], "echo");
  EXPECT_EQ(client.replies[id].headers["content-length"], "5");
  EXPECT_EQ(client.replies[id].data, "hello");
  EXPECT_EQ(script.heard[0],
            "POST /p?q=1 host=test te=trailers content-type=application/grpc cookie=a=1; b=2");
  EXPECT_EQ(server->open_exchanges(), 0u);
}

TEST_F(Http2ServerTest, StreamsBothWaysAndEndsWithTrailers) {
  start();
  script.on_request = [](Exchange& e) {
    e.stream_body();
    e.start(200, {{"a", "b"}});
  };
  script.on_end = [](Exchange& e, std::string_view body) {
    EXPECT_EQ(body, "");
    e.write("answer");
    const HeaderField trailer{"grpc-status", "0"};
    e.finish({&trailer, 1});
    EXPECT_TRUE(e.ended());
  };
  TestClient client(server->port());
  const auto id = client.open("/");
  client.send_raw(id, "one");
  EXPECT_TRUE(client.until(loop, [&] { return client.replies[id].headers[":status"] == "200"; }));
  client.end(id);
  EXPECT_TRUE(closed(client, id));
  EXPECT_EQ(client.replies[id].data, "answer");
  EXPECT_EQ(client.replies[id].status(), "0");
}

TEST_F(Http2ServerTest, APausedBodyHoldsTheClientBack) {
  start();
  script.on_request = [](Exchange& e) {
    e.stream_body();
    e.pause_body();
  };
  TestClient client(server->port());
  const auto id = client.open("/");
  client.send_raw(id, std::string(4 << 20, 'x'));
  client.settle(loop);
  client.settle(loop);
  EXPECT_GE(client.unsent(id), 3u << 20);
  client.end(id);
  pass(std::chrono::hours(1));  // it is not the client that is waited for
  EXPECT_FALSE(script.last->ended());
  script.last->resume_body();
  script.on_end = [](Exchange& e, std::string_view) { e.respond(204, {}, {}); };
  EXPECT_TRUE(closed(client, id));
  EXPECT_EQ(client.replies[id].headers[":status"], "204");
}

TEST_F(Http2ServerTest, AStreamWhoseClientTakesNothingStopsItsWriterAndThenEnds) {
  metric::Registry metrics(1);
  start({.probe = ServerProbe(metrics)});
  script.on_end = [](Exchange& e, std::string_view) { e.start(200, {}); };
  TestClient client(server->port(), false);
  const auto id = client.open("/");
  client.end(id);
  EXPECT_TRUE(client.until(loop, [&] { return script.last && script.last->started(); }));
  EXPECT_TRUE(script.last->write("little"));
  EXPECT_FALSE(script.last->write(std::string(100'000, 'x')));
  client.settle(loop);
  EXPECT_LT(script.last->unsent(), 64u * 1024);  // the client has taken a window's worth
  EXPECT_FALSE(script.last->write("more"));      // and yet it is told when to go on
  EXPECT_EQ(script.writable, 0);
  // Another stream is answered meanwhile.
  script.on_end = [](Exchange& e, std::string_view) { e.respond(404, {}, {}); };
  const auto other = client.open("/other");
  client.end(other);
  EXPECT_TRUE(closed(client, other));
  pass(std::chrono::seconds(61));
  EXPECT_TRUE(closed(client, id));
  EXPECT_EQ(script.heard.back(), "abort: client stalled");
  EXPECT_NE(metrics.render().find("{limit=\"write_timeout\"} 1\n"), std::string::npos);
}

TEST_F(Http2ServerTest, RequestsThatAreTooSlowAreAnswered) {
  start();
  TestClient client(server->port());
  const auto id = client.open("/");
  EXPECT_TRUE(client.until(loop, [&] { return script.heard.size() == 1; }));
  pass(std::chrono::seconds(61));
  EXPECT_TRUE(closed(client, id));
  EXPECT_EQ(client.replies[id].headers[":status"], "408");
  EXPECT_EQ(script.heard.back(), "abort: bad request");
}

TEST_F(Http2ServerTest, LetsTheHandlerRefuseWithWhatIsKnownOfTheHead) {
  ServerOptions options;
  options.body_bytes_max = 1000;
  options.headers_max = 20;
  start(options);
  script.on_refused = [](Exchange& e, int status, std::string_view what) {
    const auto text = std::to_string(status) + " " + std::string(what);
    e.respond(200, {{"refused", text}, {"type", e.head().headers.get("content-type")}}, {});
  };
  const TestClient::Headers many(30, {"a", "b"});
  const std::pair<TestClient::Headers, std::string> cases[] = {
      {{{"content-length", "1001"}}, "413 request body too large: more than 1000 bytes"},
      {many, "431 request head too large"},
      {{{"expect", "a miracle"}}, "417 unknown expectation"},
      {{}, "408 the request body did not arrive in time"},
  };
  TestClient client(server->port());
  for (const auto& [headers, expected] : cases) {
    const auto id = client.open("/", headers);
    client.settle(loop);
    pass(std::chrono::seconds(61));
    EXPECT_TRUE(closed(client, id)) << expected;
    EXPECT_EQ(client.replies[id].headers["refused"], expected);
    EXPECT_EQ(client.replies[id].headers["type"], "application/grpc") << expected;
    EXPECT_EQ(server->open_exchanges(), 0u);
  }
}

TEST_F(Http2ServerTest, IdleConnectionsEnd) {
  start();
  TestClient client(server->port());
  client.settle(loop);
  EXPECT_EQ(server->connections(), 1u);
  pass(std::chrono::seconds(301));
  EXPECT_TRUE(client.until(loop, [&] { return server->connections() == 0; }));
  EXPECT_EQ(client.goaway_error, static_cast<uint32_t>(NGHTTP2_NO_ERROR));
}

TEST_F(Http2ServerTest, StopsGracefully) {
  start();
  script.on_end = [](Exchange&, std::string_view) {};
  TestClient client(server->port());
  const auto id = client.open("/");
  client.end(id);
  EXPECT_TRUE(client.until(loop, [&] { return script.last != nullptr; }));
  bool stopped = false;
  server->stop(std::chrono::seconds(30), [&] { stopped = true; });
  EXPECT_TRUE(client.until(loop, [&] { return client.goaways > 0; }));
  EXPECT_FALSE(stopped);
  script.last->respond(200, {}, "late");
  EXPECT_TRUE(client.until(loop, [&] { return stopped; }));
  EXPECT_EQ(client.replies[id].data, "late");
}

TEST_F(Http2ServerTest, StopAbortsWhatIsLeft) {
  start();
  script.on_end = [](Exchange&, std::string_view) {};
  TestClient client(server->port());
  client.end(client.open("/"));
  EXPECT_TRUE(client.until(loop, [&] { return script.last != nullptr; }));
  bool stopped = false;
  server->stop(std::chrono::seconds(30), [&] { stopped = true; });
  pass(std::chrono::seconds(31));
  EXPECT_TRUE(stopped);
  EXPECT_EQ(script.heard.back(), "abort: shutdown");
}

TEST_F(Http2ServerTest, ThePrefaceCountsOnlyWhereItIsServedAndFirst) {
  Server plain(loop, {.host = "127.0.0.1"},
               [this] { return std::make_unique<ScriptHandler>(script); });
  ASSERT_TRUE(plain.listen());
  auto wire = testing::Wire::connect(plain.port());
  wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "HTTP/1.1 505"));
  start();
  wire = testing::Wire::connect(server->port());
  wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "HTTP/1.1 200"));
  wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "HTTP/1.1 505"));
}

/// Records an answer as "head 200", "data abc", "trailer a=b", "last", "failed 1".
struct Reader final : CallHandler {
  void on_response(const ResponseHead& head) override {
    heard.push_back("head " + std::to_string(head.status));
  }
  void on_data(std::string_view data, bool last) override {
    if (!data.empty()) text += data;
    if (last) heard.push_back("last");
  }
  void on_trailers(HeaderView trailers) override {
    for (const auto& [name, value] : trailers)
      heard.push_back("trailer " + std::string(name) + "=" + std::string(value));
  }
  void on_request_drained() override { ++drained; }
  void on_failure(Failure failure) override {
    heard.push_back("failed " + std::to_string(static_cast<int>(failure)));
  }
  std::vector<std::string> heard;
  std::string text;
  int drained = 0;
};

struct Http2ClientTest : Http2ServerTest {
  Destination to(uint16_t port) { return {*io::SocketAddress::parse("127.0.0.1", port), 1, {}}; }
  std::string failed(Failure failure) {
    return "failed " + std::to_string(static_cast<int>(failure));
  }
  io::ByteBudget budget{UINT64_MAX};
  ClientOptions options{.response_timeout = std::chrono::seconds(10)};
  Http2Client client{loop, options, budget};
  Reader reader;
  Http2Call call{client, reader};
};

TEST_F(Http2ClientTest, StreamsARequestAndItsAnswer) {
  start();
  script.on_end = [](Exchange& e, std::string_view body) {
    e.start(200, {{"a", "b"}});
    e.write(body);
    const HeaderField trailer{"grpc-status", "5"};
    e.finish({&trailer, 1});
  };
  const HeaderField header{"x-one", "1"};
  call.start(to(server->port()), {.target = "/t", .authority = "gw", .headers = {&header, 1}});
  EXPECT_TRUE(call.write("one ", false));
  settle(loop);
  EXPECT_FALSE(call.write(std::string(100'000, 'x'), false));
  EXPECT_TRUE(pump(loop, [&] { return reader.drained == 1; }));
  call.write("two", true);
  EXPECT_TRUE(pump(loop, [&] { return !call.active(); }));
  EXPECT_EQ(reader.heard, (std::vector{"head 200"s, "trailer grpc-status=5"s, "last"s}));
  EXPECT_EQ(reader.text, "one " + std::string(100'000, 'x') + "two");
  EXPECT_EQ(script.heard[0], "POST /t host=gw x-one=1");
}

TEST_F(Http2ClientTest, AWriterThatWasToldToWaitHearsOfIt) {
  start();
  script.on_request = [](Exchange& e) {
    e.stream_body();
    e.pause_body();
  };
  call.start(to(server->port()), {.authority = "gw"});
  EXPECT_TRUE(pump(loop, [&] { return script.last != nullptr; }));
  EXPECT_FALSE(call.write(std::string((1 << 20) + 20'000, 'x'), false));
  settle(loop);
  EXPECT_FALSE(call.write("little", false));
  EXPECT_EQ(reader.drained, 0);
  script.last->resume_body();
  EXPECT_TRUE(pump(loop, [&] { return reader.drained == 1; }));
  EXPECT_TRUE(call.write("little", false));
}

TEST_F(Http2ClientTest, CallsShareAConnectionUpToWhatTheServerTakes) {
  start({.streams_max = 2});
  script.on_end = [](Exchange&, std::string_view) {};
  Reader readers[3];
  std::list<Http2Call> calls;
  const auto begin = [&](Reader& r) {
    calls.emplace_back(client, r).start(to(server->port()), {.authority = "gw", .last = true});
  };
  begin(readers[0]);
  EXPECT_TRUE(pump(loop, [&] { return script.heard.size() == 1; }));
  begin(readers[1]);
  EXPECT_EQ(client.connections(), 1u);
  EXPECT_TRUE(pump(loop, [&] { return script.heard.size() == 2; }));
  begin(readers[2]);
  EXPECT_TRUE(pump(loop, [&] { return script.heard.size() == 3; }));
  EXPECT_EQ(client.connections(), 2u);
  calls.clear();
  EXPECT_TRUE(pump(loop, [&] { return script.heard.size() == 6; }));
  EXPECT_EQ(script.heard.back(), "abort: client gone");
}

TEST_F(Http2ClientTest, TellsHowACallFailed) {
  start();
  const uint16_t port = server->port();
  script.on_end = [](Exchange& e, std::string_view) { e.abort(); };
  call.start(to(port), {.authority = "gw", .last = true});
  EXPECT_TRUE(pump(loop, [&] { return !call.active(); }));
  script.on_end = [](Exchange& e, std::string_view) {
    e.start(200, {});
    e.write("x");
    e.loop().post([&e] { e.abort(); });
  };
  call.start(to(port), {.authority = "gw", .last = true});
  EXPECT_TRUE(pump(loop, [&] { return !call.active(); }));
  script.on_end = [](Exchange&, std::string_view) {};
  call.start(to(port), {.authority = "gw", .last = true});
  EXPECT_TRUE(pump(loop, [&] { return script.heard.size() == 3; }));
  pass(std::chrono::seconds(11));
  EXPECT_FALSE(call.active());
  server.reset();
  settle(loop);
  call.start(to(port), {.authority = "gw", .last = true});
  EXPECT_TRUE(pump(loop, [&] { return !call.active(); }));
  EXPECT_EQ(reader.heard,
            (std::vector{failed(Failure::kReset), "head 200"s, failed(Failure::kBroken),
                         failed(Failure::kTimeout), failed(Failure::kConnect)}));
}

TEST_F(Http2ClientTest, AServerOfHttp1IsNoServer) {
  Server plain(loop, {.host = "127.0.0.1"},
               [this] { return std::make_unique<ScriptHandler>(script); });
  ASSERT_TRUE(plain.listen());
  call.start(to(plain.port()), {.authority = "gw", .last = true});
  EXPECT_TRUE(pump(loop, [&] { return !call.active(); }));
  EXPECT_EQ(reader.heard, std::vector{failed(Failure::kProtocol)});
}

TEST_F(Http2ClientTest, APausedCallHoldsTheServerBack) {
  start();
  script.on_end = [](Exchange& e, std::string_view) {
    e.start(200, {});
    e.write(std::string(4 << 20, 'x'), true);
  };
  call.start(to(server->port()), {.authority = "gw", .last = true});
  call.pause();
  EXPECT_TRUE(pump(loop, [&] { return !reader.text.empty(); }));
  settle(loop);
  EXPECT_LE(reader.text.size(), 256u * 1024);
  call.resume();
  EXPECT_TRUE(pump(loop, [&] { return !call.active(); }));
  EXPECT_EQ(reader.text.size(), 4u << 20);
}

}  // namespace
}  // namespace llmd::http
