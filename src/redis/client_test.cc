#include "redis/testing.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::redis {
namespace {

using namespace std::chrono_literals;
using Texts = std::vector<std::string>;

struct Handler final : ReplyHandler {
  void on_reply(const Reply& reply) override {
    replies.emplace_back(reply.text());
    if (then) then();
  }
  void on_failure() override { ++failures; }
  Texts replies;
  int failures = 0;
  std::function<void()> then;
};

class ClientTest : public ::testing::Test, protected testing::ScriptedServer {
 protected:
  void start(const Address& address = {}, const ClientOptions& options = {}) {
    client_ = client(
        [this](bool up, std::string_view why) { changes_.push_back(up ? "up" : std::string(why)); },
        address, options);
  }
  void come_up() { welcome(*client_); }

  Texts changes_;
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, PipelinesAndHandsRepliesToWhoAsked) {
  start();
  come_up();
  Handler first, second;
  client_->send("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n", 2, first);
  client_->send("*1\r\n$1\r\nc\r\n", 1, second);
  expect("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n*1\r\n$1\r\nc\r\n");
  for (const char c : std::string_view("+1\r\n$3\r\ntwo\r\n-ERR three\r\n")) {
    answer({&c, 1});
    loop.turn(Nanos(0));
  }
  until([&] { return !second.replies.empty(); });
  EXPECT_EQ(first.replies, (Texts{"1", "two"}));
  EXPECT_EQ(second.replies, (Texts{"ERR three"}));
  EXPECT_EQ(changes_, (Texts{"up"}));
}

TEST_F(ClientTest, SaysFirstWhoItIs) {
  start({.user = "bob", .password = "word", .database = 3});
  accept();
  expect(
      "*3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$4\r\nword\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
      "*1\r\n$4\r\nPING\r\n");
  answer("+OK\r\n+OK\r\n+PONG\r\n");
  until([&] { return client_->up(); });
}

TEST_F(ClientTest, IsNotUpWhereItIsRefused) {
  start({.password = "word"});
  accept();
  expect("*2\r\n$4\r\nAUTH\r\n$4\r\nword\r\n*1\r\n$4\r\nPING\r\n");
  answer("-WRONGPASS invalid\r\n-NOAUTH\r\n");
  until([&] { return !changes_.empty(); });
  EXPECT_EQ(changes_, (Texts{"WRONGPASS invalid"}));
  EXPECT_FALSE(client_->up());
  accept();  // and tries again
}

TEST_F(ClientTest, ComesBackAfterABreakAndTellsWhoWaited) {
  start();
  come_up();
  Handler handler;
  client_->send("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n", 2, handler);
  expect("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n");
  answer("+1\r\n$10\r\nhalf");
  connection.reset();
  until([&] { return handler.failures == 1; });
  EXPECT_EQ(handler.replies, (Texts{"1"}));
  come_up();
  client_->send("*1\r\n$1\r\nc\r\n", 1, handler);
  expect("*1\r\n$1\r\nc\r\n");
  answer("+3\r\n");
  until([&] { return handler.replies.size() == 2; });
  EXPECT_EQ(changes_, (Texts{"up", "the server closed the connection", "up"}));
}

TEST_F(ClientTest, TriesUntilTheServerIsThere) {
  listener.reset();
  start();
  until([&] { return changes_.size() >= 3; });
  EXPECT_EQ(changes_.front(), "Connection refused");
  listen(port);
  come_up();
}

TEST_F(ClientTest, GivesUpOnAServerThatDoesNotAnswer) {
  start({}, {.connect_timeout = 5ms, .reply_timeout = 10ms});
  accept();
  until([&] { return !changes_.empty(); });
  EXPECT_EQ(changes_.back(), "no connection in time");
  connection.reset();
  changes_.clear();
  until([&] {
    accept();
    answer("+PONG\r\n");
    for (int i = 0; i < 10 && !client_->up(); ++i) loop.turn(1ms);
    return client_->up();
  });
  Handler handler;
  client_->send("*1\r\n$1\r\na\r\n", 1, handler);
  until([&] { return handler.failures == 1; });
  EXPECT_EQ(changes_.back(), "no reply in time");
}

TEST_F(ClientTest, EndsWithAServerThatBreaksTheProtocol) {
  start({}, {.reply_bytes_max = 100});
  Handler handler;
  for (const std::string_view bytes : {"HTTP/1.1 400\r\n", "$100\r\n", "+1\r\n+2\r\n"}) {
    come_up();
    client_->send("*1\r\n$1\r\na\r\n", 1, handler);
    expect("*1\r\n$1\r\na\r\n");
    answer(bytes);
    until([&] { return !client_->up(); });
    EXPECT_EQ(changes_.back(), "the server broke the protocol");
  }
  EXPECT_EQ(handler.failures, 2);
  EXPECT_EQ(handler.replies, (Texts{"1"}));
}

TEST_F(ClientTest, DropsRepliesForWhoIsGone) {
  start();
  come_up();
  Handler stays;
  {
    Handler leaves;
    client_->send("*1\r\n$1\r\na\r\n", 1, leaves);
    client_->send("*1\r\n$1\r\nb\r\n", 1, stays);
    client_->forget(leaves);
  }
  expect("*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n");
  answer("+1\r\n+2\r\n");
  until([&] { return !stays.replies.empty(); });
  EXPECT_EQ(stays.replies, (Texts{"2"}));
}

TEST_F(ClientTest, SendsAndReceivesWhatNoBufferHoldsAtOnce) {
  start();
  come_up();
  Handler handler;
  std::string commands;
  append_command(commands, {"ECHO", std::string(8 << 20, 'x')});
  client_->send(commands, 1, handler);
  expect(commands);
  std::string reply;
  append_word(reply, std::string(3 << 20, 'y'));
  size_t sent = 0;
  until([&] {
    const ssize_t n = ::send(connection.get(), reply.data() + sent, reply.size() - sent, 0);
    if (n > 0) sent += static_cast<size_t>(n);
    return !handler.replies.empty();
  });
  EXPECT_EQ(handler.replies[0], std::string(3 << 20, 'y'));
}

}  // namespace
}  // namespace llmd::redis
