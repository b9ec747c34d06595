#include "fetch/unary.h"

#include "grpc/server.h"
#include "http/testing/wire.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace llmd::fetch {
namespace {

using http::testing::pump;

/// Answers a message with what it says: twice itself, an error, nothing.
class Service final : public grpc::CallHandler {
 public:
  explicit Service(grpc::Call& call) : call_(call) {}
  void on_message(std::string_view message) override {
    if (message == "error")
      return call_.finish(grpc::StatusCode::kNotFound, "100% " + std::string(2000, 'x'));
    if (message == "silence") return;
    const std::string answer = std::string(message) + std::string(message);
    call_.send({grpc::Piece{.bytes = answer, .stays = false}});
    if (message == "twice") call_.send({grpc::Piece{.bytes = answer, .stays = false}});
    call_.finish(grpc::StatusCode::kOk);
  }
  void on_half_close() override {}
  void on_abort(grpc::StatusCode) override {}

 private:
  grpc::Call& call_;
};

class UnaryTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytesMax = size_t{1} << 20;

  struct Call final : Unary {
    using Unary::start;
    using Unary::Unary;
    void on_answer(std::string_view message) override { answer = message; }
    void on_ended(std::string_view why, bool was_reached) override {
      outcome = why;
      reached = was_reached;
    }
    std::string answer;
    std::optional<std::string> outcome;
    bool reached = false;
  };

  ~UnaryTest() override { std::filesystem::remove(path_); }

  /// What came of it: the answer, or why there is none.
  std::string ask(std::string_view message, Server& server) {
    call_.outcome.reset();
    call_.start(server, "/t.T/Twice", message, std::chrono::seconds(5));
    EXPECT_FALSE(call_.outcome) << "never from within";
    if (message == "silence") {
      for (int i = 0; i < 100; ++i) loop_.turn(Nanos(0));
      clock_.advance(std::chrono::seconds(6));
    }
    pump(loop_, [&] { return call_.outcome.has_value(); });
    EXPECT_FALSE(call_.active());
    return call_.outcome->empty() ? call_.answer : *call_.outcome;
  }
  std::string ask(std::string_view message) {
    Server server(path_);
    return ask(message, server);
  }

  ManualClock clock_;
  io::Loop loop_{0, 1, clock_};
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("llmd_unary_test." + std::to_string(getpid()));
  io::ByteBudget budget_{UINT64_MAX};
  grpc::ServerOptions options_{.socket_path = path_, .message_bytes_max = 2 * kBytesMax};
  grpc::Server server_{
      loop_,
      options_,
      {{"/t.T/Twice", [](grpc::Call& call) { return std::make_unique<Service>(call); }}},
      budget_};
  http::Http2Client client_{loop_, {}, budget_};
  Call call_{loop_, client_, kBytesMax};
};

TEST_F(UnaryTest, HasTheAnswer) {
  ASSERT_TRUE(server_.listen());
  EXPECT_EQ(ask("ab"), "abab");
  EXPECT_EQ(ask(""), "");
  const std::string large(kBytesMax / 2, 'x');
  EXPECT_EQ(ask(large), large + large);
  EXPECT_EQ(client_.connections(), 1u);
}

TEST_F(UnaryTest, TellsWhyThereIsNone) {
  ASSERT_TRUE(server_.listen());
  EXPECT_EQ(ask("error"), "grpc-status 5: 100% " + std::string(1019, 'x'));
  EXPECT_EQ(ask("twice"), "the answer is not one message");
  EXPECT_EQ(ask(std::string(kBytesMax / 2 + 1, 'x')), "the answer is too large");
  EXPECT_EQ(ask("silence"), "no answer in time");
  EXPECT_TRUE(call_.reached);
  EXPECT_EQ(ask("ab"), "abab");
}

TEST_F(UnaryTest, TellsWhenThereIsNoServer) {
  EXPECT_EQ(ask("ab"), "cannot connect");
  EXPECT_FALSE(call_.reached);
  ASSERT_TRUE(server_.listen());
  EXPECT_EQ(ask("ab"), "abab");
}

}  // namespace
}  // namespace llmd::fetch
