#include "http/server.h"

#include "http/testing/wire.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

namespace llmd::http {
namespace {

using testing::pump;
using testing::settle;
using testing::Wire;

/// Records what it hears as "request GET /", "body 3", "end abc", "writable", "abort: shutdown";
/// answers as its functions say.
struct Script {
  std::vector<std::string> heard;
  std::function<void(Exchange&)> on_head;
  std::function<void(Exchange&, std::string_view)> on_end;
  std::function<void(Exchange&, int, std::string_view)> on_refused;
  Exchange* last = nullptr;
};

class ScriptHandler final : public RequestHandler {
 public:
  explicit ScriptHandler(Script& script) : script_(script) {}
  void on_request(Exchange& exchange) override {
    script_.last = &exchange;
    script_.heard.push_back("request " + std::string(exchange.head().method) + " " +
                            std::string(exchange.head().target));
    if (script_.on_head) script_.on_head(exchange);
  }
  void on_body(Exchange&, std::string_view body) override {
    script_.heard.push_back("body " + std::to_string(body.size()));
  }
  void on_request_end(Exchange& exchange, std::string_view body) override {
    script_.heard.push_back("end " + std::string(body.substr(0, 20)));
    if (script_.on_end) script_.on_end(exchange, body);
  }
  void on_writable(Exchange&) override { script_.heard.push_back("writable"); }
  void on_refused(Exchange& e, int status, std::string_view what) override {
    if (!script_.on_refused) return RequestHandler::on_refused(e, status, what);
    script_.on_refused(e, status, what);
  }
  void on_abort(Exchange&, AbortCause cause) override {
    constexpr const char* kNames[] = {"client gone", "client stalled", "bad request", "shutdown"};
    script_.heard.push_back(std::string("abort: ") + kNames[static_cast<size_t>(cause)]);
  }

 private:
  Script& script_;
};

struct ServerTest : ::testing::Test {
  ServerTest() { start({}); }
  void start(ServerOptions options) {
    server.reset();
    options.host = "127.0.0.1";
    server = std::make_unique<Server>(loop, options,
                                      [&] { return std::make_unique<ScriptHandler>(script); });
    ASSERT_TRUE(server->listen());
    script.on_end = [](Exchange& exchange, std::string_view body) {
      exchange.respond(200, {{"X-A", "1"}}, body);
    };
  }
  Wire connect() { return Wire::connect(server->port()); }

  io::Loop loop{0, 1};
  Script script;
  std::unique_ptr<Server> server;
};

const std::string kPost = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
const std::string kPostAnswer = "HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 5\r\n\r\nhello";
const std::string kChunked =
    "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";

TEST_F(ServerTest, AnswersRequestsOnAKeptConnection) {
  Wire wire = connect();
  for (int i = 0; i < 3; ++i) {
    wire.forget_seen();
    wire.send(kPost);
    EXPECT_TRUE(wire.sees(loop, "hello"));
    EXPECT_EQ(wire.seen(), kPostAnswer);
  }
  EXPECT_EQ(script.heard,
            (std::vector<std::string>{"request POST /p", "end hello", "request POST /p",
                                      "end hello", "request POST /p", "end hello"}));
  EXPECT_EQ(server->connections(), 1u);
  EXPECT_EQ(server->open_exchanges(), 0u);
}

TEST_F(ServerTest, UnderstandsRequestsSplitAtEveryByte) {
  for (const std::string& bytes : {kPost + kPost, kChunked + kChunked}) {
    for (size_t split = 1; split < bytes.size(); ++split) {
      Wire wire = connect();
      wire.send(std::string_view(bytes).substr(0, split));
      settle(loop);
      wire.send(std::string_view(bytes).substr(split));
      ASSERT_TRUE(pump(loop, [&] {
        wire.look();
        return wire.seen().size() >= 2 * kPostAnswer.size();
      })) << split;
      ASSERT_EQ(wire.seen(), kPostAnswer + kPostAnswer) << split;
    }
  }
}

TEST_F(ServerTest, AnswersPipelinedRequestsOneAfterTheOther) {
  script.on_end = nullptr;
  Wire wire = connect();
  wire.send(kPost + kChunked + "\r\nGET /g HTTP/1.1\r\nHost: a\r\n\r\n");
  settle(loop);
  EXPECT_EQ(script.heard.size(), 2u);
  for (int i = 0; i < 3; ++i) {
    script.last->respond(200, {}, std::to_string(i));
    EXPECT_TRUE(wire.sees(loop, "\r\n\r\n" + std::to_string(i)));
    settle(loop);
  }
  EXPECT_EQ(script.heard.back(), "end ");
  EXPECT_EQ(script.heard.size(), 6u);
}

TEST_F(ServerTest, CollectsLargeBodiesContiguously) {
  std::string body(400'000, 'x');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 26);
  std::string received;
  script.on_end = [&](Exchange& exchange, std::string_view all) {
    received = all;
    exchange.respond(200, {}, "ok");
  };
  for (int chunked = 0; chunked < 2; ++chunked) {
    Wire wire = connect();
    std::string bytes = "POST / HTTP/1.1\r\nHost: a\r\n";
    if (chunked) {
      bytes += "Transfer-Encoding: chunked\r\n\r\n";
      for (size_t at = 0; at < body.size(); at += 50'000)
        bytes += "c350\r\n" + body.substr(at, 50'000) + "\r\n";
      bytes += "0\r\n\r\n";
    } else {
      bytes += "Content-Length: 400000\r\n\r\n" + body;
    }
    size_t sent = 0;
    EXPECT_TRUE(pump(loop, [&] {
      sent += wire.send_some(std::string_view(bytes).substr(sent, 30'000));
      wire.look();
      return wire.seen().ends_with("ok");
    }));
    EXPECT_EQ(received, body);
    EXPECT_TRUE(script.heard[1].starts_with("body ")) << "arriving bytes are announced";
    script.heard.clear();
  }
}

TEST_F(ServerTest, StreamsBodiesWithBackPressure) {
  size_t received = 0;
  script.on_head = [](Exchange& exchange) { exchange.stream_body(), exchange.pause_body(); };
  script.on_end = [](Exchange& exchange, std::string_view) { exchange.respond(200, {}, "ok"); };
  Wire wire = connect();
  wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
  const std::string block(1 << 20, 'x');
  size_t sent = 0;
  for (int i = 0; i < 50; ++i) {
    sent += wire.send_some(block);
    settle(loop);
  }
  EXPECT_LT(sent, 20'000'000u) << "the client has to wait";
  script.last->resume_body();
  EXPECT_TRUE(pump(loop, [&] {
    if (sent < 20'000'000)
      sent += wire.send_some(std::string_view(block).substr(0, 20'000'000 - sent));
    wire.look();
    return wire.seen().ends_with("ok");
  }));
  for (const auto& line : script.heard)
    if (line.starts_with("body ")) received += std::stoul(line.substr(5));
  EXPECT_EQ(received, 20'000'000u);
}

TEST_F(ServerTest, StreamsAnswersChunkedSizedAndUntilTheClose) {
  script.on_end = [](Exchange& exchange, std::string_view) {
    const bool sized = exchange.head().path() == "/sized";
    exchange.start(200, {}, sized ? std::optional<uint64_t>(5) : std::nullopt);
    EXPECT_TRUE(exchange.write("he"));
    EXPECT_TRUE(exchange.write("llo", true));
  };
  Wire wire = connect();
  wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "0\r\n\r\n"));
  EXPECT_EQ(wire.seen(),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n");
  wire.forget_seen();
  wire.send("GET /sized HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "hello"));
  EXPECT_EQ(wire.seen(), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  Wire old = connect();
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.sees_end(loop));
  EXPECT_EQ(old.seen(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello");
}

TEST_F(ServerTest, SendsAStartedHeadWithoutABodyAtTheEndOfTheTurn) {
  script.on_end = [](Exchange& exchange, std::string_view) { exchange.start(200, {}); };
  Wire wire = connect();
  wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "chunked\r\n\r\n"));
}

TEST_F(ServerTest, SendsNoBodyWhereNoneIsAllowed) {
  script.on_end = [](Exchange& exchange, std::string_view) {
    if (exchange.head().path() == "/streamed") {
      exchange.start(200, {}, 5);
      exchange.write("hello", true);
    } else {
      exchange.respond(exchange.head().path() == "/204" ? 204 : 200, {}, "hello");
    }
  };
  Wire wire = connect();
  wire.send(
      "HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /streamed HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /204 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "hello"));
  EXPECT_EQ(wire.seen(),
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
            "HTTP/1.1 204 No Content\r\n\r\n"
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
}

TEST_F(ServerTest, TellsAWaitingClientToContinue) {
  Wire wire = connect();
  wire.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(wire.sees(loop, "HTTP/1.1 100 Continue\r\n\r\n"));
  wire.send("hello");
  EXPECT_TRUE(wire.sees(loop, "hello"));
}

TEST_F(ServerTest, AnAnswerBeforeTheBodyEndsTheConnectionReadably) {
  script.on_head = [](Exchange& exchange) { exchange.respond(401, {}, "no"); };
  Wire wire = connect();
  wire.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\nhello");
  settle(loop);
  wire.send(std::string(100'000, 'x'));
  EXPECT_TRUE(wire.sees_end(loop));
  EXPECT_EQ(wire.seen(),
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
  EXPECT_FALSE(wire.was_reset());
  wire.close();
  EXPECT_TRUE(pump(loop, [&] { return server->connections() == 0; }));
}

TEST_F(ServerTest, KeepsWhatASlowReaderDoesNotTakeAndSaysWhenItIsGone) {
  const std::string block(8 << 20, 'x');
  script.on_end = [&](Exchange& exchange, std::string_view) {
    exchange.start(200, {}, block.size() + 3);
    EXPECT_FALSE(exchange.write(block));
    EXPECT_GT(exchange.unsent(), 0u);
  };
  Wire wire = connect();
  wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  settle(loop);
  EXPECT_EQ(script.heard.back(), "end ");
  EXPECT_TRUE(pump(loop, [&] {
    wire.look(100'000);
    return script.heard.back() == "writable";
  }));
  EXPECT_EQ(script.last->unsent(), 0u);
  EXPECT_TRUE(script.last->write("end", true));
  EXPECT_TRUE(wire.sees(loop, "xend"));
}

TEST_F(ServerTest, AbortsWhenTheClientLeaves) {
  script.on_end = nullptr;
  for (int how = 0; how < 4; ++how) {
    script.heard.clear();
    Wire wire = connect();
    wire.send(how == 3 ? kPost.substr(0, kPost.size() - 2) : kPost);
    EXPECT_TRUE(pump(loop, [&] { return script.heard.size() == 2; }));
    if (how == 1) wire.reset_on_close();
    if (how == 2)
      wire.half_close();
    else
      wire.close();
    EXPECT_TRUE(pump(loop, [&] { return server->connections() == 0; }));
    EXPECT_EQ(script.heard.back(), "abort: client gone") << how;
    EXPECT_EQ(server->open_exchanges(), 0u);
  }
}

TEST_F(ServerTest, AbortShowsABreak) {
  script.on_end = [](Exchange& exchange, std::string_view) {
    exchange.start(200, {});
    exchange.write("part");
    exchange.abort();
    exchange.write("never", true);
  };
  Wire wire = connect();
  wire.send(kPost);
  EXPECT_TRUE(wire.sees_end(loop));
  EXPECT_TRUE(wire.seen().ends_with("4\r\npart\r\n"));
  EXPECT_EQ(script.heard.back(), "end hello") << "the handler hears nothing of its own abort";
}

TEST_F(ServerTest, RefusesBadMessagesWithTheirStatus) {
  ServerOptions options;
  options.body_bytes_max = 1000;
  options.head_bytes_max = 20'000;
  metric::Registry metrics(1);
  options.probe.emplace(metrics);
  start(options);
  const std::pair<std::string, std::string> cases[] = {
      {"GET / HTTP/1.1\n", "400"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505"},
      {"GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x'), "431"},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", "431"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", "413"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
           std::string(1001, 'x'),
       "413"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "400"},
      {"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
  };
  for (const auto& [bytes, status] : cases) {
    script.heard.clear();
    Wire wire = connect();
    wire.send(bytes);
    EXPECT_TRUE(wire.sees_end(loop));
    EXPECT_TRUE(wire.seen().starts_with("HTTP/1.1 " + status))
        << bytes.substr(0, 60) << wire.seen();
    EXPECT_TRUE(wire.seen().find("\"code\":" + status + "}}") != std::string::npos);
    EXPECT_TRUE(script.heard.empty() || script.heard.back() == "abort: bad request");
  }
  const auto page = metrics.render();
  EXPECT_NE(page.find("llmd_client_limits_total{limit=\"body\"} 2\n"), std::string::npos);
  EXPECT_NE(page.find("llmd_client_limits_total{limit=\"header_list\"} 2\n"), std::string::npos);
}

TEST_F(ServerTest, LetsTheHandlerRefuseARequestWhoseHeadItHasUnderstood) {
  ServerOptions options;
  options.body_bytes_max = 1000;
  start(options);
  script.on_refused = [](Exchange& exchange, int status, std::string_view what) {
    exchange.respond(status, {{"x-target", exchange.head().target}}, what);
    EXPECT_TRUE(exchange.ended());
  };
  const std::string chunked = "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
       "413 Content Too Large\r\nx-target: /a|request body too large: more than 1000 bytes"},
      {chunked + "3e9\r\n" + std::string(1001, 'x'),
       "413 Content Too Large\r\nx-target: /b|request body too large: more than 1000 bytes"},
      {chunked + "x\r\n", "400 Bad Request\r\nx-target: /b|malformed chunk"},
  };
  for (const auto& [bytes, expected] : cases) {
    Wire wire = connect();
    wire.send(bytes);
    EXPECT_TRUE(wire.sees_end(loop));
    const auto bar = expected.find('|');
    EXPECT_TRUE(wire.seen().starts_with("HTTP/1.1 " + expected.substr(0, bar))) << wire.seen();
    EXPECT_TRUE(wire.seen().ends_with("Connection: close\r\n\r\n" + expected.substr(bar + 1)))
        << wire.seen();
    EXPECT_EQ(server->open_exchanges(), 0u);
  }
}

TEST_F(ServerTest, BoundsTheBodiesOfAllConnectionsTogether) {
  ServerOptions options;
  metric::Registry metrics(1);
  options.probe.emplace(metrics);
  options.body_budget = std::make_shared<io::ByteBudget>(256 << 10);
  start(options);
  const std::string half(100'000, 'x');
  const auto post = [&](std::string_view framing, std::string_view body) {
    Wire wire = connect();
    wire.send("POST / HTTP/1.1\r\nHost: a\r\n" + std::string(framing) + "\r\n\r\n" +
              std::string(body));
    return wire;
  };
  Wire promises = post("Content-Length: 1000000", "x");
  Wire first = post("Content-Length: 200000", half);
  ASSERT_TRUE(pump(loop, [&] { return options.body_budget->used() == 192 << 10; }));
  for (const auto& [framing, body] :
       {std::pair<std::string, std::string>{"Content-Length: 200000", half},
        {"Transfer-Encoding: chunked", "186a0\r\n" + half}}) {
    Wire more = post(framing, body);
    EXPECT_TRUE(more.sees(loop, "HTTP/1.1 503 ")) << framing;
  }
  EXPECT_NE(metrics.render().find("{limit=\"buffered_bytes\"} 2\n"), std::string::npos);
  promises.close();
  first.close();
  EXPECT_TRUE(pump(loop, [&] { return options.body_budget->used() == 0; }));
}

TEST_F(ServerTest, ClosesWhatAPeerOpensBeyondItsShare) {
  ServerOptions options;
  options.peer_limit = std::make_shared<io::PeerLimit>(2, 7);
  metric::Registry metrics(1);
  options.probe.emplace(metrics);
  start(options);
  Wire a = connect(), b = connect();
  ASSERT_TRUE(pump(loop, [&] { return server->connections() == 2; }));
  Wire c = connect();
  EXPECT_TRUE(c.sees_end(loop));
  EXPECT_NE(metrics.render().find("llmd_client_limits_total{limit=\"connections_per_peer\"} 1\n"),
            std::string::npos);
  a.close();
  ASSERT_TRUE(pump(loop, [&] { return server->connections() == 1; }));
  Wire d = connect();
  d.send(kPost);
  EXPECT_TRUE(d.sees(loop, "hello"));
}

TEST_F(ServerTest, InformsBeforeTheAnswer) {
  script.on_end = [](Exchange& exchange, std::string_view) {
    const HeaderField link{"Link", "x"};
    exchange.inform(103, {&link, 1});
    exchange.respond(200, {}, "ok");
  };
  Wire wire = connect();
  wire.send(kPost);
  EXPECT_TRUE(wire.sees(loop, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK"));
}

struct ServerTimeTest : ServerTest {
  void pass(Nanos time) {
    clock.advance(time);
    settle(timed);
  }
  ManualClock clock;
  io::Loop timed{0, 1, clock};
};

TEST_F(ServerTimeTest, EndsConnectionsThatAreTooSlowOrIdle) {
  Script slow;
  metric::Registry metrics(1);
  ServerOptions options{.host = "127.0.0.1", .probe = ServerProbe(metrics)};
  Server other(timed, options, [&] { return std::make_unique<ScriptHandler>(slow); });
  ASSERT_TRUE(other.listen());
  const struct {
    std::string bytes;
    Nanos limit;
    std::string status;
  } cases[] = {
      {"", options.head_timeout, ""},
      {"GET / HT", options.head_timeout, "408"},
      {kPost.substr(0, kPost.size() - 1), options.body_timeout, "408"},
  };
  for (const auto& [bytes, limit, status] : cases) {
    Wire wire = Wire::connect(other.port());
    wire.send(bytes);
    ASSERT_TRUE(pump(timed, [&] { return other.connections() == 1; }));
    settle(timed);
    pass(limit - std::chrono::seconds(1));
    wire.look();
    EXPECT_FALSE(wire.ended());
    pass(std::chrono::seconds(2));
    EXPECT_TRUE(wire.sees_end(timed));
    EXPECT_EQ(wire.seen().substr(0, 12), status.empty() ? "" : "HTTP/1.1 " + status);
    wire.close();
    ASSERT_TRUE(pump(timed, [&] { return other.connections() == 0; }));
  }
  const auto page = metrics.render();
  EXPECT_NE(page.find("{limit=\"header_timeout\"} 1\n"), std::string::npos);
  EXPECT_NE(page.find("{limit=\"body_idle_timeout\"} 1\n"), std::string::npos);
}

TEST_F(ServerTimeTest, EndsARequestThatDripsInWithoutAnEnd) {
  Script slow;
  metric::Registry metrics(1);
  ServerOptions options{.host = "127.0.0.1", .probe = ServerProbe(metrics)};
  options.request_timeout = std::chrono::seconds(150);
  Server other(timed, options, [&] { return std::make_unique<ScriptHandler>(slow); });
  ASSERT_TRUE(other.listen());
  Wire wire = Wire::connect(other.port());
  wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  ASSERT_TRUE(pump(timed, [&] { return other.open_exchanges() == 1; }));
  for (int i = 0; i < 3; ++i) {
    settle(timed);
    pass(std::chrono::seconds(49));  // each arrival is within the time-out between two
    wire.look();
    EXPECT_FALSE(wire.ended());
    wire.send("x");
  }
  settle(timed);
  pass(std::chrono::seconds(4));
  EXPECT_TRUE(wire.sees_end(timed));
  EXPECT_EQ(wire.seen().substr(0, 12), "HTTP/1.1 408");
  EXPECT_NE(metrics.render().find("{limit=\"request_timeout\"} 1\n"), std::string::npos);
}

TEST_F(ServerTimeTest, BlankLinesDoNotKeepAConnectionOpen) {
  Script slow;
  ServerOptions options{.host = "127.0.0.1"};
  Server other(timed, options, [&] { return std::make_unique<ScriptHandler>(slow); });
  ASSERT_TRUE(other.listen());
  Wire wire = Wire::connect(other.port());
  for (int i = 0; i < 5; ++i) {
    wire.send("\r\n");
    settle(timed);
    pass(options.idle_timeout - std::chrono::seconds(1));
  }
  EXPECT_TRUE(wire.sees_end(timed));
}

TEST_F(ServerTest, StopsGracefully) {
  Wire idle = connect(), busy = connect(), stuck = connect();
  idle.send(kPost);
  EXPECT_TRUE(idle.sees(loop, "hello"));
  script.on_end = nullptr;
  script.heard.clear();
  busy.send(kPost);
  EXPECT_TRUE(pump(loop, [&] { return server->connections() == 3 && script.heard.size() == 2; }));
  Exchange* finishing = script.last;
  stuck.send(kPost);
  EXPECT_TRUE(pump(loop, [&] { return script.heard.size() == 4; }));
  bool stopped = false;
  server->stop(std::chrono::milliseconds(50), [&] { stopped = true; });
  EXPECT_TRUE(idle.sees_end(loop));
  EXPECT_FALSE(stopped);
  finishing->respond(200, {}, "bye");
  EXPECT_TRUE(busy.sees_end(loop));
  EXPECT_TRUE(busy.seen().find("Connection: close\r\n\r\nbye") != std::string::npos);
  EXPECT_TRUE(pump(loop, [&] { return stopped; }));
  EXPECT_EQ(script.heard.back(), "abort: shutdown");
}

TEST_F(ServerTest, ServesWhatHasArrivedWhenItStops) {
  Wire known = connect();
  settle(loop);
  known.send(kPost);
  Wire waiting = connect();  // in the listener's queue
  waiting.send(kPost);
  bool stopped = false;
  server->stop(std::chrono::seconds(1), [&] { stopped = true; });
  for (Wire* wire : {&known, &waiting}) {
    EXPECT_TRUE(wire->sees_end(loop));
    EXPECT_NE(wire->seen().find("Connection: close\r\n\r\nhello"), std::string::npos);
  }
  EXPECT_TRUE(pump(loop, [&] { return stopped; }));
}

TEST_F(ServerTest, ServesTheFirstRequestOfANewConnectionWhenItStops) {
  Wire late = connect(), used = connect();
  used.send(kPost);
  EXPECT_TRUE(used.sees(loop, "hello"));
  bool stopped = false;
  server->stop(std::chrono::seconds(10), [&] { stopped = true; });
  EXPECT_TRUE(used.sees_end(loop));
  EXPECT_FALSE(stopped);
  late.send(kPost);
  EXPECT_TRUE(late.sees_end(loop));
  EXPECT_NE(late.seen().find("Connection: close\r\n\r\nhello"), std::string::npos);
  EXPECT_TRUE(pump(loop, [&] { return stopped; }));
}

TEST_F(ServerTest, PausesAcceptingAtItsLimit) {
  metric::Registry metrics(1);
  ServerOptions options;
  options.connections_max = 2;
  options.probe.emplace(metrics);
  start(options);
  Wire a = connect(), b = connect(), c = connect();
  c.send(kPost);
  settle(loop);
  EXPECT_EQ(server->connections(), 2u);
  EXPECT_NE(metrics.render().find("{limit=\"connections\"} 1\n"), std::string::npos);
  a.close();
  EXPECT_TRUE(c.sees(loop, "hello"));
}

TEST_F(ServerTest, NamesTheAddressThatItCannotListenOn) {
  ServerOptions options{.host = "127.0.0.1", .port = server->port()};
  Server second(loop, options, [&] { return std::make_unique<ScriptHandler>(script); });
  const auto status = second.listen();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("127.0.0.1:"), std::string::npos);
}

}  // namespace
}  // namespace llmd::http
