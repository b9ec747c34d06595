#include "http/client.h"
#include "http/server.h"
#include "http/testing/wire.h"
#include "tls/testing/authority.h"
#include "tls/testing/link.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace llmd::http {
namespace {

using testing::pump;
using testing::settle;
using testing::Wire;
using testing::WireListener;
using tls::testing::Link;

struct Reader final : CallHandler {
  void on_response(const ResponseHead& head) override { status = head.status; }
  void on_data(std::string_view more, bool last) override {
    ++reads;
    data += more;
    ended = last;
  }
  void on_failure(Failure f) override { failure = f; }
  bool done() const { return ended || failure; }

  int status = 0;
  int reads = 0;
  std::string data;
  bool ended = false;
  std::optional<Failure> failure;
};

/// Answers with what it was sent: at once, or in chunks that wait for the client.
class Echo final : public RequestHandler {
 public:
  void on_request_end(Exchange& exchange, std::string_view body) override {
    if (exchange.head().path() == "/whole") return exchange.respond(200, {}, body);
    exchange.start(200, {});
    left_ = body;
    on_writable(exchange);
  }
  void on_writable(Exchange& exchange) override {
    while (!left_.empty()) {
      const auto chunk = left_.substr(0, 100'000);
      left_.remove_prefix(chunk.size());
      if (!exchange.write(chunk, left_.empty())) return;
    }
  }

 private:
  std::string_view left_;
};

class HttpsTest : public ::testing::Test {
 protected:
  HttpsTest() {
    auto serving = tls::Context::server({.pair = authority_.issue({"127.0.0.1"})});
    auto upstream =
        tls::Context::client({.ca_file = directory_.write("ca.pem", authority_.certificate())});
    EXPECT_TRUE(serving && upstream);
    context_ = *serving;
    target_ = std::make_shared<tls::Target>(*upstream, "127.0.0.1");
    server_.emplace(loop_, options(), [] { return std::make_unique<Echo>(); });
    EXPECT_TRUE(server_->listen());
  }
  ServerOptions options() const {
    ServerOptions o;
    o.host = "127.0.0.1";
    o.tls = context_;
    return o;
  }
  void start(uint16_t port, std::string_view target = "/whole", std::string_view body = "hello") {
    reader_.emplace();
    call_.emplace(*client_, *reader_);
    body_ = body;
    call_->start({*io::SocketAddress::parse("127.0.0.1", port), 1, target_},
                 {.method = "POST", .target = target, .host = "h", .body = {&body_, 1}});
  }
  void finish() {
    EXPECT_TRUE(pump(loop_, [&] { return reader_->done(); }));
  }
  /// The next connection to `listener_`, the test being its TLS server.
  void accept_link() {
    link_.emplace(
        loop_, tls::Stream(io::Fd(::dup(listener_.accept(loop_).fd())), context_, loop_.buffers()));
  }

  io::Loop loop_{0, 1};
  tls::testing::Authority authority_;
  tls::testing::Directory directory_;
  std::shared_ptr<tls::Context> context_;
  std::shared_ptr<tls::Target> target_;
  WireListener listener_;
  std::optional<Server> server_;
  std::optional<Link> link_;
  std::optional<Client> client_{std::in_place, loop_};
  std::string_view body_;
  std::optional<Reader> reader_;
  std::optional<Call> call_;
};

TEST_F(HttpsTest, ServesManyRequestsOverOneConnection) {
  for (int i = 0; i < 5; ++i) {
    start(server_->port());
    finish();
    EXPECT_EQ(reader_->status, 200);
    EXPECT_EQ(reader_->data, "hello");
    EXPECT_EQ(client_->idle_connections(), 1u);
  }
  EXPECT_EQ(client_->connections_made(), 1u);
}

TEST_F(HttpsTest, CarriesLargeBodiesBothWays) {
  std::string body(9'000'000, 0);
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761u >> 16);
  for (const char* path : {"/whole", "/chunks"}) {
    start(server_->port(), path, body);
    finish();
    EXPECT_EQ(reader_->status, 200);
    EXPECT_TRUE(reader_->data == body) << path;
  }
  EXPECT_EQ(client_->connections_made(), 1u);
}

TEST_F(HttpsTest, MakesAServerWaitWhoseAnswerIsNotRead) {
  const std::string body(5'000'000, 'x');
  start(server_->port(), "/chunks", body);
  EXPECT_TRUE(pump(loop_, [&] { return reader_->status != 0; }));
  call_->pause();
  settle(loop_);
  const size_t before = reader_->data.size();
  settle(loop_);
  EXPECT_EQ(reader_->data.size(), before);
  call_->resume();
  finish();
  EXPECT_EQ(reader_->data.size(), body.size());
}

TEST_F(HttpsTest, FailsToConnectToWhomItDoesNotMean) {
  const Server plain(loop_, {.host = "127.0.0.1"}, [] { return std::make_unique<Echo>(); });
  auto& server = const_cast<Server&>(plain);
  ASSERT_TRUE(server.listen());
  start(server.port());
  finish();
  EXPECT_EQ(reader_->failure, Failure::kConnect) << "a plain server";

  auto strict = tls::Context::client({});
  ASSERT_TRUE(strict);
  target_ = std::make_shared<tls::Target>(*strict, "127.0.0.1");
  client_.emplace(loop_);
  start(server_->port());
  finish();
  EXPECT_EQ(reader_->failure, Failure::kConnect) << "an unknown authority";
}

TEST_F(HttpsTest, GivesHandshakesTheTimeOfConnecting) {
  client_.emplace(loop_, ClientOptions{.connect_timeout = std::chrono::milliseconds(20)});
  start(listener_.port());
  Wire silent = listener_.accept(loop_);
  finish();
  EXPECT_EQ(reader_->failure, Failure::kConnect);
}

TEST_F(HttpsTest, GivesClientsTheTimeOfAHeadForTheHandshake) {
  auto o = options();
  o.head_timeout = std::chrono::milliseconds(20);
  server_.emplace(loop_, std::move(o), [] { return std::make_unique<Echo>(); });
  ASSERT_TRUE(server_->listen());
  Wire silent = Wire::connect(server_->port());
  silent.send("\x16\x03\x01");
  EXPECT_TRUE(silent.sees_end(loop_));
  EXPECT_EQ(server_->connections(), 0u);
}

TEST_F(HttpsTest, TakesATruncatedAnswerForABrokenOne) {
  for (const bool orderly : {true, false}) {
    start(listener_.port());
    accept_link();
    EXPECT_TRUE(pump(loop_, [&] { return link_->seen.ends_with("hello"); }));
    link_->write("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    if (orderly) link_->stream().say_end();
    link_->close();
    finish();
    EXPECT_EQ(reader_->data, "until the end");
    EXPECT_EQ(reader_->failure, orderly ? std::nullopt : std::optional(Failure::kBroken));
  }
}

TEST_F(HttpsTest, KnowsAStaleConnection) {
  start(listener_.port());
  accept_link();
  EXPECT_TRUE(pump(loop_, [&] { return link_->seen.ends_with("hello"); }));
  link_->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  finish();
  ASSERT_EQ(client_->idle_connections(), 1u);
  // The request and the server's end pass each other on their way.
  link_->stream().say_end();
  link_->close();
  start(listener_.port());
  accept_link();
  EXPECT_TRUE(pump(loop_, [&] { return link_->seen.ends_with("hello"); }));
  link_->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  finish();
  EXPECT_FALSE(reader_->failure);
  EXPECT_EQ(client_->connections_made(), 2u);
}

TEST_F(HttpsTest, TellsClientsThatAnAnswerOrAnIdleConnectionEnds) {
  for (const bool last : {true, false}) {
    link_.emplace(loop_, tls::Stream(std::move(*io::connect_tcp(
                                         *io::SocketAddress::parse("127.0.0.1", server_->port()))),
                                     target_, loop_.buffers()));
    link_->write("GET /whole HTTP/1.1\r\nHost: h\r\n" +
                 std::string(last ? "Connection: close\r\n\r\n" : "\r\n"));
    EXPECT_TRUE(pump(loop_, [&] { return link_->seen.ends_with("\r\n\r\n"); }));
    if (!last) server_->stop(Nanos(0));
    EXPECT_TRUE(pump(loop_, [&] { return link_->ended || link_->broken; }));
    EXPECT_TRUE(link_->ended) << "last " << last;
  }
}

}  // namespace
}  // namespace llmd::http
