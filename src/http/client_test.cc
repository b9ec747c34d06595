#include "http/client.h"

#include "http/testing/wire.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace llmd::http {
namespace {

using testing::pump;
using testing::settle;
using testing::Wire;
using testing::WireListener;

/// Records an answer as "head 200", "data abc", "last", "failed 1".
struct Reader final : CallHandler {
  void on_sent(TimePoint) override { ++sent; }
  void on_inform(const ResponseHead& head) override { heads.push_back(head.status); }
  void on_response(const ResponseHead& head) override {
    heads.push_back(head.status);
    if (then_head) then_head();
  }
  void on_data(std::string_view more, bool last) override {
    ++reads;
    data += more;
    ended = last;
    if (then_data) then_data();
  }
  void on_failure(Failure f) override { failure = f; }
  bool done() const { return ended || failure; }

  int sent = 0;
  int reads = 0;
  std::vector<int> heads;
  std::string data;
  bool ended = false;
  std::optional<Failure> failure;
  std::function<void()> then_head, then_data;
};

struct ClientTest : ::testing::Test {
 public:
  void start(std::span<const std::string_view> body = {}, std::string_view method = "GET") {
    const HeaderField headers[] = {{"X-A", "1"}};
    reader = std::make_unique<Reader>();
    call = std::make_unique<Call>(client, *reader);
    call->start(to(listener.port()),
                {.method = method, .target = "/t", .host = "h", .headers = headers, .body = body});
  }
  static Destination to(uint16_t port, uint64_t generation = 1) {
    return {*io::SocketAddress::parse("127.0.0.1", port), generation};
  }
  /// Answers the call under way on `wire` with `bytes` and waits for its end.
  void answer(Wire& wire, std::string_view bytes) {
    wire.send(bytes);
    EXPECT_TRUE(pump(loop, [&] { return reader->done(); })) << bytes;
  }

  io::Loop loop{0, 1};
  WireListener listener;
  Client client{loop};
  std::unique_ptr<Reader> reader;
  std::unique_ptr<Call> call;
};

constexpr std::string_view kGet = "GET /t HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\n";
constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST_F(ClientTest, KeepsConnectionsAfterCleanExchanges) {
  start();
  Wire wire = listener.accept(loop);
  for (int i = 0; i < 3; ++i) {
    if (i > 0) start();
    EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
    EXPECT_EQ(wire.seen(), kGet);
    wire.forget_seen();
    answer(wire, kOk);
    EXPECT_EQ(reader->data, "ok");
    EXPECT_EQ(reader->sent, 1);
    EXPECT_EQ(client.idle_connections(), 1u);
  }
  EXPECT_EQ(client.connections_made(), 1u);
}

TEST_F(ClientTest, SendsBodyPiecesWithTheirLength) {
  const std::string_view body[] = {"ab", "", "c"};
  start(body, "POST");
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "abc"));
  EXPECT_EQ(wire.seen(), "POST /t HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nContent-Length: 3\r\n\r\nabc");
}

TEST_F(ClientTest, SendsLargeBodiesAsTheServerTakesThem) {
  const std::string large(20 << 20, 'x');
  const std::string_view body[] = {large, "end"};
  start(body, "POST");
  Wire wire = listener.accept(loop);
  settle(loop);
  EXPECT_FALSE(call->request_sent());
  EXPECT_TRUE(pump(loop, [&] {
    wire.look();
    return wire.seen().size() > large.size() + 3;
  }));
  EXPECT_TRUE(wire.seen().ends_with("xend"));
  EXPECT_TRUE(call->request_sent());
  answer(wire, kOk);
  EXPECT_EQ(client.idle_connections(), 1u);
}

struct Answer {
  std::string bytes;
  std::string data;
  bool kept;
};
const std::string kHead = "HTTP/1.1 200 OK\r\n";
const std::vector<Answer> kAnswers = {
    {std::string(kOk), "ok", true},
    {kHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3\r\nabc\r\n0\r\n\r\n", "okabc", true},
    {kHead + "Content-Length: 0\r\n\r\n", "", true},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", true},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "", true},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" + std::string(kOk),
     "ok", true},
    {kHead + "Connection: close\r\nContent-Length: 2\r\n\r\nok", "ok", false},
    {std::string(kOk) + "more", "ok", false},
};

TEST_F(ClientTest, UnderstandsAnswersSplitAtEveryByte) {
  for (const auto& [bytes, data, kept] : kAnswers) {
    for (size_t split = 1; split <= bytes.size(); ++split) {
      start();
      Wire wire = listener.accept(loop);
      EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
      wire.send(std::string_view(bytes).substr(0, split));
      settle(loop);
      wire.send_some(std::string_view(bytes).substr(split));
      ASSERT_TRUE(pump(loop, [&] { return reader->done(); })) << bytes << split;
      EXPECT_FALSE(reader->failure);
      EXPECT_EQ(reader->data, data);
      settle(loop);
      EXPECT_EQ(client.idle_connections(), kept ? 1u : 0u) << bytes << split;
      client.purge(to(listener.port()));
      settle(loop);
      ASSERT_EQ(client.connections(), 0u);
    }
  }
}

TEST_F(ClientTest, ReadsUntilTheCloseWhenNothingElseEndsTheBody) {
  start();
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  wire.send("HTTP/1.0 200 OK\r\n\r\nsome");
  settle(loop);
  EXPECT_FALSE(reader->done());
  wire.close();
  EXPECT_TRUE(pump(loop, [&] { return reader->done(); }));
  EXPECT_TRUE(reader->ended);
  EXPECT_EQ(reader->data, "some");
}

TEST_F(ClientTest, AnswersToHeadHaveNoBody) {
  start({}, "HEAD");
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  answer(wire, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n");
  EXPECT_TRUE(reader->ended);
  EXPECT_EQ(client.idle_connections(), 1u);
}

TEST_F(ClientTest, ReportsBrokenAndMalformedAnswers) {
  const std::pair<std::string, Failure> cases[] = {
      {"", Failure::kReset},
      {"HTTP/1.1 200 OK\r\nContent-Le", Failure::kBroken},
      {kHead + "Content-Length: 5\r\n\r\nabc", Failure::kBroken},
      {kHead + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Failure::kBroken},
      {kHead + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", Failure::kProtocol},
      {kHead + "Transfer-Encoding: gzip\r\n\r\n", Failure::kProtocol},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", Failure::kProtocol},
      {"nonsense\r\n\r\n", Failure::kProtocol},
      {"HTTP/1.1 200 OK\n", Failure::kProtocol},
      {kHead + std::string(70'000, 'x'), Failure::kProtocol},
  };
  for (const auto& [bytes, failure] : cases) {
    start();
    Wire wire = listener.accept(loop);
    EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
    wire.send(bytes);
    settle(loop);
    wire.close();
    EXPECT_TRUE(pump(loop, [&] { return reader->done(); }));
    ASSERT_TRUE(reader->failure) << bytes;
    EXPECT_EQ(*reader->failure, failure) << bytes.substr(0, 80);
    EXPECT_FALSE(call->active());
  }
}

TEST_F(ClientTest, ReportsAFailedConnectionFromTheLoop) {
  const uint16_t port = listener.port();
  listener.close();
  reader = std::make_unique<Reader>();
  Call failing(client, *reader);
  failing.start(to(port), {.host = "h"});
  EXPECT_FALSE(reader->done());
  EXPECT_TRUE(pump(loop, [&] { return reader->done(); }));
  EXPECT_EQ(*reader->failure, Failure::kConnect);
}

TEST_F(ClientTest, AnEarlyAnswerIsReportedAndItsConnectionNotKept) {
  const std::string large(20 << 20, 'x');
  const std::string_view body[] = {large};
  start(body, "POST");
  Wire wire = listener.accept(loop);
  settle(loop);
  answer(wire, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_EQ(reader->heads, std::vector{413});
  EXPECT_EQ(reader->data, "no");
  settle(loop);
  EXPECT_EQ(client.connections(), 0u);
  EXPECT_TRUE(wire.sees_end(loop));
}

TEST_F(ClientTest, AnIdleConnectionEndsWithAnyEvent) {
  for (const bool bytes : {true, false}) {
    start();
    Wire wire = listener.accept(loop);
    EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
    answer(wire, kOk);
    EXPECT_EQ(client.idle_connections(), 1u);
    bytes ? wire.send("HTTP/1.1 408 Too Late\r\n\r\n") : wire.close();
    EXPECT_TRUE(pump(loop, [&] { return client.connections() == 0; }));
    EXPECT_EQ(client.idle_connections(), 0u);
  }
}

TEST_F(ClientTest, SendsAgainWhenAKeptConnectionTurnsOutClosed) {
  start();
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  answer(wire, kOk);
  wire.close();  // the loop has not seen it yet
  const std::string_view body[] = {"abc"};
  start(body, "POST");
  Wire second = listener.accept(loop);
  EXPECT_TRUE(second.sees(loop, "Content-Length: 3\r\n\r\nabc"));
  answer(second, kOk);
  EXPECT_EQ(reader->data, "ok");
  EXPECT_EQ(reader->sent, 1);
  second.forget_seen();
  start();
  EXPECT_TRUE(second.sees(loop, "\r\n\r\n"));
  second.send("HTTP/1.1 2");
  settle(loop);
  second.close();
  EXPECT_TRUE(pump(loop, [&] { return reader->done(); }));
  EXPECT_EQ(*reader->failure, Failure::kBroken) << "not after a byte of the answer";
}

TEST_F(ClientTest, CanReportAStaleConnectionInstead) {
  Client strict(loop, {.resend_stale = false});
  const auto begin = [&](bool fresh) {
    reader = std::make_unique<Reader>();
    call = std::make_unique<Call>(strict, *reader);
    call->start(to(listener.port()), {.host = "h", .fresh_connection = fresh});
  };
  begin(false);
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  answer(wire, kOk);
  wire.close();  // the loop has not seen it yet
  begin(false);
  EXPECT_TRUE(pump(loop, [&] { return reader->done(); }));
  EXPECT_EQ(*reader->failure, Failure::kStale);

  begin(false);
  Wire second = listener.accept(loop);
  EXPECT_TRUE(second.sees(loop, "\r\n\r\n"));
  answer(second, kOk);
  begin(true);
  Wire third = listener.accept(loop);
  EXPECT_TRUE(third.sees(loop, "\r\n\r\n")) << "a fresh connection was asked for";
  answer(third, kOk);
  EXPECT_EQ(reader->data, "ok");
  call.reset();
}

TEST_F(ClientTest, AServerThatTookARequestOnAKeptConnectionAndDiedIsNotAStaleConnection) {
  start();
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  answer(wire, kOk);
  wire.forget_seen();
  const std::string_view body[] = {"poison"};
  start(body, "POST");
  EXPECT_TRUE(wire.sees(loop, "poison"));
  wire.close();
  EXPECT_TRUE(pump(loop, [&] { return reader->done(); }));
  ASSERT_TRUE(reader->failure) << "it must not be sent again";
  EXPECT_EQ(*reader->failure, Failure::kReset);
}

TEST_F(ClientTest, ARequestCutOffWhileItIsSentIsUnsent) {
  const std::string large(20 << 20, 'x');
  const std::string_view body[] = {large};
  start(body, "POST");
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  wire.close();
  EXPECT_TRUE(pump(loop, [&] { return reader->done(); }));
  EXPECT_EQ(*reader->failure, Failure::kUnsent);
}

TEST_F(ClientTest, AbortClosesTheConnectionAtOnce) {
  start();
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  call->abort();
  EXPECT_TRUE(wire.sees_end(loop));
  EXPECT_FALSE(reader->done());
  start();
  Wire other = listener.accept(loop);
  reader->then_head = [&] { call->abort(); };
  other.send(kOk);
  EXPECT_TRUE(other.sees_end(loop));
  EXPECT_EQ(reader->reads, 0);
}

TEST_F(ClientTest, PauseMakesTheServerWait) {
  start();
  Wire wire = listener.accept(loop);
  EXPECT_TRUE(wire.sees(loop, "\r\n\r\n"));
  reader->then_data = [&] { call->pause(); };
  wire.send(kHead + "Content-Length: 20000000\r\n\r\n");
  const std::string block(1 << 20, 'x');
  size_t sent = 0;
  for (int i = 0; i < 50; ++i) {
    sent += wire.send_some(block);
    settle(loop);
  }
  EXPECT_LT(sent, 19'000'000u);
  EXPECT_LE(reader->data.size(), 65'536u);
  reader->then_data = nullptr;
  call->resume();
  EXPECT_TRUE(pump(loop, [&] {
    if (sent < 20'000'000)
      sent += wire.send_some(std::string_view(block).substr(0, 20'000'000 - sent));
    return reader->done();
  }));
  EXPECT_EQ(reader->data.size(), 20'000'000u);
}

TEST_F(ClientTest, ConnectionsBelongToAGenerationAndPurgeClosesThem) {
  start();
  Wire wire = listener.accept(loop);
  answer(wire, kOk);
  Reader other;
  Call newer(client, other);
  newer.start(to(listener.port(), 2), {.host = "h"});
  Wire second = listener.accept(loop);
  EXPECT_EQ(client.connections_made(), 2u);
  client.purge(to(listener.port(), 1));
  client.purge(to(listener.port(), 2));
  EXPECT_TRUE(wire.sees_end(loop));
  EXPECT_EQ(client.idle_connections(), 0u);
  second.send(kOk);
  EXPECT_TRUE(pump(loop, [&] { return other.done(); }));
  EXPECT_TRUE(second.sees_end(loop)) << "purged while in use: closed after it";
}

TEST(ClientTimes, EndConnectionsAndCallsThatTakeTooLong) {
  ManualClock clock;
  io::Loop loop(0, 1, clock);
  WireListener listener;
  ClientOptions options;
  options.response_timeout = std::chrono::seconds(10);
  options.idle_max = 1;
  Client client(loop, options);
  Reader a, b;
  Call first(client, a), second(client, b);
  first.start(ClientTest::to(listener.port()), {.host = "h"});
  Wire wire = listener.accept(loop);
  second.start(ClientTest::to(listener.port()), {.host = "h"});
  Wire other = listener.accept(loop);
  wire.send(kOk);
  EXPECT_TRUE(pump(loop, [&] { return a.done(); }));
  EXPECT_EQ(client.idle_connections(), 1u);
  clock.advance(std::chrono::seconds(5));
  settle(loop);
  EXPECT_EQ(client.idle_connections(), 0u);
  EXPECT_FALSE(b.done());
  clock.advance(std::chrono::seconds(6));
  settle(loop);
  EXPECT_EQ(b.failure, Failure::kTimeout);
}

}  // namespace
}  // namespace llmd::http
