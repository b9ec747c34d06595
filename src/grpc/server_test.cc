#include "grpc/server.h"

#include "grpc/health.h"
#include "grpc/testing/client.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>

namespace llmd::grpc {
namespace {

using namespace std::literals;
using http::testing::pump;
using testing::framed;
using testing::TestClient;

/// What the handlers of a test have seen.
struct Seen {
  std::vector<std::string> messages;
  int half_closes = 0;
  std::vector<StatusCode> aborts;
  int destroyed = 0;
  Call* call = nullptr;
};

/// Echoes every message; "finish" ends the call; half-close ends it.
class Echo final : public CallHandler {
 public:
  Echo(Call& call, Seen& seen) : call_(call), seen_(seen) { seen.call = &call; }
  ~Echo() override { ++seen_.destroyed; }
  void on_message(std::string_view message) override {
    seen_.messages.emplace_back(message);
    if (message == "finish") return call_.finish(StatusCode::kUnavailable, "not now, 100%");
    if (message == "large") {
      large_.assign(1 << 20, 'L');
      return call_.send({{"<"}, {large_, true}, {">"}});
    }
    call_.send({{message}});
  }
  void on_half_close() override {
    ++seen_.half_closes;
    call_.finish(StatusCode::kOk);
  }
  void on_abort(StatusCode why) override { seen_.aborts.push_back(why); }

 private:
  Call& call_;
  Seen& seen_;
  std::string large_;
};

class ServerTest : public ::testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    options.host = "127.0.0.1";
    std::vector<Method> methods;
    methods.push_back(
        {"/t.T/Echo", [this](Call& call) { return std::make_unique<Echo>(call, seen); }});
    server = std::make_unique<Server>(loop, options, std::move(methods), budget);
    ASSERT_TRUE(server->listen());
    connect();
  }
  void connect(bool take_windows = true) {
    client = std::make_unique<TestClient>(server->port(), take_windows);
  }
  auto& reply(int32_t id) { return client->replies[id]; }
  ::testing::AssertionResult closed(int32_t id) {
    return client->until(loop, [&] { return reply(id).closed; });
  }

  io::Loop loop{0, 1};
  io::ByteBudget budget{64 << 20};
  Seen seen;
  std::unique_ptr<Server> server;
  std::unique_ptr<TestClient> client;
};

TEST_F(ServerTest, EchoesMessagesAndEndsWithTrailers) {
  start();
  const auto id = client->open("/t.T/Echo");
  client->send(id, "one");
  client->send(id, "");
  EXPECT_TRUE(client->until(loop, [&] { return reply(id).messages().size() == 2; }));
  client->end(id);
  EXPECT_TRUE(closed(id));
  EXPECT_EQ(reply(id).messages(), (std::vector{"one"s, ""s}));
  EXPECT_EQ(reply(id).headers[":status"], "200");
  EXPECT_EQ(reply(id).headers["content-type"], "application/grpc");
  EXPECT_EQ(reply(id).status(), "0");
  EXPECT_EQ(reply(id).headers.count("grpc-message"), 0u);
  client->settle(loop);
  EXPECT_EQ(seen.destroyed, 1);
  EXPECT_EQ(server->open_calls(), 0u);
  EXPECT_EQ(budget.used(), 0u);
}

TEST_F(ServerTest, SendsWhatStaysFromWhereItIs) {
  start();
  const auto id = client->open("/t.T/Echo");
  client->send(id, "large");
  EXPECT_TRUE(client->until(loop, [&] { return reply(id).messages().size() == 1; }));
  EXPECT_EQ(reply(id).messages()[0], "<" + std::string(1 << 20, 'L') + ">");
  client->end(id);
  EXPECT_TRUE(closed(id));
}

TEST_F(ServerTest, MayEndACallFirst) {
  start();
  const auto id = client->open("/t.T/Echo");
  client->send(id, "finish");
  EXPECT_TRUE(closed(id));
  EXPECT_EQ(reply(id).status(), "14");
  EXPECT_EQ(reply(id).headers["grpc-message"], "not now, 100%25");
  EXPECT_EQ(reply(id).error, static_cast<uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_EQ(seen.half_closes, 0);
}

TEST_F(ServerTest, RefusesWhatIsNoCall) {
  start();
  const auto unknown = client->open("/t.T/None");
  EXPECT_TRUE(closed(unknown));
  EXPECT_EQ(reply(unknown).status(), "12");
  const auto timeout = client->open("/t.T/Echo", {{"grpc-timeout", "soon"}});
  EXPECT_TRUE(closed(timeout));
  EXPECT_EQ(reply(timeout).status(), "13");
  EXPECT_EQ(server->open_calls(), 0u);
}

TEST_F(ServerTest, EndsCallsAtTheirDeadline) {
  start();
  const auto id = client->open("/t.T/Echo", {{"grpc-timeout", "1m"}});
  EXPECT_TRUE(closed(id));
  EXPECT_EQ(reply(id).status(), "4");
  EXPECT_EQ(seen.aborts, std::vector{StatusCode::kDeadlineExceeded});
}

TEST_F(ServerTest, TellsTheHandlerWhenTheClientCancels) {
  start();
  const auto id = client->open("/t.T/Echo");
  client->send(id, "one");
  EXPECT_TRUE(client->until(loop, [&] { return reply(id).messages().size() == 1; }));
  client->reset(id);
  EXPECT_TRUE(client->until(loop, [&] { return seen.destroyed == 1; }));
  EXPECT_EQ(seen.aborts, std::vector{StatusCode::kCancelled});
  const auto other = client->open("/t.T/Echo");
  client->send(other, "two");
  EXPECT_TRUE(client->until(loop, [&] { return reply(other).messages().size() == 1; }));
  client->wire().close();
  EXPECT_TRUE(pump(loop, [&] { return seen.destroyed == 2; }));
  EXPECT_EQ(server->open_calls(), 0u);
  EXPECT_EQ(server->connections(), 0u);
  EXPECT_EQ(budget.used(), 0u);
}

TEST_F(ServerTest, RefusesBrokenMessages) {
  start({.message_bytes_max = 1000});
  const std::pair<std::string, const char*> cases[] = {
      {"\0\0\0\x03\xe9"s, "8"}, {"\1\0\0\0\1x"s, "13"}, {"\0\0\0\0\5abc"s, "13"}};
  for (const auto& [bytes, status] : cases) {
    const auto id = client->open("/t.T/Echo");
    client->send_raw(id, bytes);
    client->end(id);
    EXPECT_TRUE(closed(id));
    EXPECT_EQ(reply(id).status(), status);
  }
  EXPECT_EQ(seen.aborts.size(), 3u);
}

TEST_F(ServerTest, CapsHeaderListsAndConcurrentCalls) {
  start({.streams_max = 2, .header_list_bytes_max = 1000});
  const auto bomb = client->open("/t.T/Echo", {{"x", std::string(1000, 'x')}});
  EXPECT_TRUE(closed(bomb));
  EXPECT_NE(reply(bomb).error, 0u);
  EXPECT_EQ(
      nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS),
      2u);
  const auto id = client->open("/t.T/Echo");
  client->end(id);
  EXPECT_TRUE(closed(id)) << "the connection goes on";
}

TEST_F(ServerTest, ThrottlesAStalledCallButNotItsConnection) {
  start();
  connect(false);
  const auto stalled = client->open("/t.T/Echo");
  const std::string block(20'000, 'x');
  for (int i = 0; i < 100; ++i) client->send(stalled, block);
  client->settle(loop);
  EXPECT_GT(client->unsent(stalled), 1'000'000u);
  EXPECT_LE(budget.used(), 600u * 1024);
  // The stalled call has taken the connection's window for output, too: give that back by hand.
  nghttp2_session_consume_connection(client->session, reply(stalled).data.size());
  EXPECT_GT(client->credit[0], 100'000u) << "input credit follows receipt";
  const auto other = client->open("/t.T/Echo");
  client->send(other, "quick");
  EXPECT_TRUE(client->until(loop, [&] { return reply(other).messages().size() == 1; }));
  // The stalled one goes on when its peer reads.
  size_t taken = 0;
  EXPECT_TRUE(client->until(loop, [&] {
    const size_t now = reply(stalled).data.size();
    nghttp2_session_consume(client->session, stalled, now - taken);
    taken = now;
    return reply(stalled).messages().size() == 100;
  }));
}

TEST_F(ServerTest, LetsPeersResetWhatHasBeenAnswered) {
  start({.resets_per_second = 1});
  for (int i = 0; i < 50; ++i) {
    const auto id = client->open("/t.T/Echo");
    client->send(id, "one");
    EXPECT_TRUE(client->until(loop, [&] { return reply(id).messages().size() == 1; }));
    client->reset(id);
  }
  client->settle(loop);
  EXPECT_EQ(client->goaways, 0);
}

TEST_F(ServerTest, EndsConnectionsThatResetTooOften) {
  start({.resets_per_second = 1});
  EXPECT_TRUE(client->until(loop, [&] {
    const auto id = client->open("/t.T/Echo");
    client->settle(loop);
    client->reset(id);
    return client->goaways > 0;
  }));
  EXPECT_EQ(client->goaway_error, static_cast<uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_EQ(seen.destroyed, 11);
}

TEST_F(ServerTest, EndsConnectionsThatFloodControlFrames) {
  start({.control_frames_per_second = 1});
  EXPECT_TRUE(client->until(loop, [&] {
    nghttp2_submit_ping(client->session, NGHTTP2_FLAG_NONE, nullptr);
    return client->goaways > 0;
  }));
  EXPECT_EQ(client->goaway_error, static_cast<uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_TRUE(client->until(loop, [&] { return client->wire().ended(); }));
}

TEST_F(ServerTest, ClosesWhatIsNotHttp2) {
  start();
  http::testing::Wire wire = http::testing::Wire::connect(server->port());
  wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(wire.sees_end(loop));
}

TEST_F(ServerTest, CountsNoCallWhoseHeadNeverEnds) {
  start();
  http::testing::Wire wire = http::testing::Wire::connect(server->port());
  wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"s + "\0\0\0\4\0\0\0\0\0"s +
            "\0\0\1\1\0\0\0\0\1\x83"s);
  EXPECT_TRUE(wire.sees(loop, "\0\0\0\4\1"sv)) << "the settings are acknowledged";
  wire.close();
  client.reset();
  EXPECT_TRUE(pump(loop, [&] { return server->connections() == 0; }));
  EXPECT_EQ(server->open_calls(), 0u);
}

TEST_F(ServerTest, ClosesConnectionsThatSayNothing) {
  start({.handshake_timeout = 5ms});
  http::testing::Wire wire = http::testing::Wire::connect(server->port());
  EXPECT_TRUE(wire.sees_end(loop));
}

TEST_F(ServerTest, DrainsWithGoawayAndLetsOpenCallsFinish) {
  start();
  const auto id = client->open("/t.T/Echo");
  client->send(id, "one");
  EXPECT_TRUE(client->until(loop, [&] { return reply(id).messages().size() == 1; }));
  bool stopped = false;
  server->stop(30s, [&] { stopped = true; });
  EXPECT_TRUE(client->until(loop, [&] { return client->goaways == 2; }));
  EXPECT_FALSE(stopped);
  client->send(id, "two");
  client->end(id);
  EXPECT_TRUE(closed(id));
  EXPECT_EQ(reply(id).status(), "0");
  EXPECT_TRUE(client->until(loop, [&] { return stopped; }));
}

TEST_F(ServerTest, AbortsCallsAfterTheGrace) {
  start();
  const auto id = client->open("/t.T/Echo");
  client->send(id, "one");
  EXPECT_TRUE(client->until(loop, [&] { return reply(id).messages().size() == 1; }));
  bool stopped = false;
  server->stop(5ms, [&] { stopped = true; });
  EXPECT_TRUE(client->until(loop, [&] { return stopped; }));
  EXPECT_EQ(seen.aborts, std::vector{StatusCode::kUnavailable});
}

TEST_F(ServerTest, LeavesNoSocketBehind) {
  const std::string path =
      ::testing::TempDir() + "left-behind-" + std::to_string(::getpid()) + ".socket";
  Server on_socket(loop, {.socket_path = path}, {}, budget);
  ASSERT_TRUE(on_socket.listen());
  EXPECT_TRUE(std::filesystem::exists(path));
  on_socket.stop(5ms, [] {});
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ServerTest, ServesConnectionsHandedOver) {
  start();
  const auto listener = io::listen_tcp(*io::SocketAddress::parse("127.0.0.1", 0));
  client = std::make_unique<TestClient>(io::SocketAddress::of(listener->get()).port());
  io::Fd fd;
  EXPECT_TRUE(pump(loop, [&] {
    fd = io::Fd(::accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK));
    return static_cast<bool>(fd);
  }));
  server->hand_over(std::move(fd));
  EXPECT_EQ(server->connections(), 1u);
  const auto id = client->open("/t.T/Echo");
  client->end(id);
  EXPECT_TRUE(closed(id));
}

TEST_F(ServerTest, WatchersOfHealthAreToldOfChanges) {
  Serving status = Serving::kServing;
  Health health(
      [&](std::string_view name) { return name == "x" ? Serving::kServiceUnknown : status; },
      {"a", "b"});
  server =
      std::make_unique<Server>(loop, ServerOptions{.host = "127.0.0.1"}, health.methods(), budget);
  ASSERT_TRUE(server->listen());
  connect();
  const auto check = client->open("/grpc.health.v1.Health/Check");
  client->send(check, "\x0a\x01x");
  client->end(check);
  const auto list = client->open("/grpc.health.v1.Health/List");
  client->send(list, "");
  client->end(list);
  const auto watch = client->open("/grpc.health.v1.Health/Watch");
  client->send(watch, "");
  client->end(watch);
  EXPECT_TRUE(closed(check));
  EXPECT_TRUE(closed(list));
  EXPECT_EQ(reply(check).messages(), std::vector{"\x08\x03"s});
  EXPECT_EQ(reply(list).messages(), std::vector{"\x0a\x07\x0a\x01"
                                                "a\x12\x02\x08\x01\x0a\x07\x0a\x01"
                                                "b\x12\x02\x08\x01"s});
  EXPECT_TRUE(client->until(loop, [&] { return reply(watch).messages().size() == 1; }));
  health.refresh();
  status = Serving::kNotServing;
  health.refresh();
  EXPECT_TRUE(client->until(loop, [&] { return reply(watch).messages().size() == 2; }));
  EXPECT_EQ(reply(watch).messages()[1], "\x08\x02");
  server.reset();
}

}  // namespace
}  // namespace llmd::grpc
