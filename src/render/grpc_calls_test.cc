#include "grpc/server.h"
#include "http/testing/wire.h"
#include "render/render_client.h"
#include "render/token_messages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace llmd::render {
namespace {

using http::testing::pump;

/// A tokenization service that answers every prompt with how many there were.
class Service {
 public:
  Service(io::Loop& loop, std::string path)
      : server_(loop, {.socket_path = std::move(path)}, methods(), budget_) {
    EXPECT_TRUE(server_.listen());
  }

  std::string error;               // "": there is none
  std::vector<std::string> calls;  // the body that is asked for, or "initialize MODEL"

 private:
  struct Handler final : grpc::CallHandler {
    using Answer = std::function<std::string(std::string_view)>;
    Handler(grpc::Call& c, Answer a) : call(c), answer(std::move(a)) {}
    void on_message(std::string_view message) override {
      const std::string out = answer(message);
      call.send({grpc::Piece{.bytes = out, .stays = false}});
      call.finish(grpc::StatusCode::kOk);
    }
    void on_half_close() override {}
    void on_abort(grpc::StatusCode) override {}
    grpc::Call& call;
    Answer answer;
  };

  static grpc::Method method(std::string_view path, Handler::Answer answer) {
    return {std::string(path), [answer = std::move(answer)](grpc::Call& call) {
              return std::make_unique<Handler>(call, answer);
            }};
  }
  grpc::Method tokens(const TokenMethod& of, Result<Asked> (*read)(std::string_view)) {
    return method(of.path, [this, &of, read](std::string_view message) {
      const auto asked = read(message);
      calls.push_back(asked->model + " " + asked->body);
      if (!error.empty()) return write_answer(of, "", fail(Code::kInternal, error));
      const auto number = static_cast<uint32_t>(calls.size());
      return write_answer(of, "", std::vector<RenderedPrompt>{{.token_ids = {number}}});
    });
  }
  std::vector<grpc::Method> methods() {
    return {tokens(kRenderCompletion, read_completion), tokens(kRenderChat, read_chat),
            method(kInitialize, [this](std::string_view message) {
              calls.push_back("initialize " + *read_initialize(message));
              if (error.empty()) return write_initialized({});
              return write_initialized(fail(Code::kNotFound, error));
            })};
  }

  io::ByteBudget budget_{UINT64_MAX};
  grpc::Server server_;
};

class GrpcCalls : public ::testing::Test {
 protected:
  static constexpr std::string_view kChat =
      R"({"model":"m","messages":[{"role":"user","content":"a"}]})";

  GrpcCalls() { spec_.name = path_, spec_.scheme = "unix"; }
  ~GrpcCalls() override { std::filesystem::remove(path_); }

  /// Ids of the prompts one after the other, or the error.
  std::string render(std::string_view body, bool chat) {
    int woken = 0;
    const schedule::Signal resume(std::make_shared<std::function<void()>>([&woken] { ++woken; }));
    const auto ticket = client_.ask(
        spec_, {.chat = chat, .body = std::string(body), .timeout = std::chrono::seconds(5)},
        resume);
    if (!ticket) return ticket.error().message;
    pump(loop_, [&] { return woken > 0; });
    const auto prompts = client_.take(*ticket);
    if (!prompts) return prompts.error().message;
    std::string out;
    for (const auto& prompt : *prompts)
      for (const auto id : prompt.token_ids) out += std::to_string(id) + ",";
    return out;
  }
  void settle() {
    for (int i = 0; i < 200; ++i) loop_.turn(Nanos(0));
  }

  ManualClock clock_;
  io::Loop loop_{0, 1, clock_};
  metric::Registry metrics_{1};
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("llmd_grpc_calls." + std::to_string(getpid()));
  fleet::EndpointSpec spec_;
  std::optional<Service> service_;
  RenderClient client_{loop_, fleet::system_resolver(), metrics_};
};

TEST_F(GrpcCalls, AskForEachPrompt) {
  service_.emplace(loop_, path_);
  EXPECT_EQ(render(kChat, true), "1,");
  EXPECT_EQ(render(R"({"model":"m","prompt":["a","b"]})", false), "2,3,");
  EXPECT_EQ(service_->calls,
            (std::vector<std::string>{R"(m {"messages":[{"role":"user","content":"a"}],)"
                                      R"("add_generation_prompt":true,)"
                                      R"("continue_final_message":false})",
                                      R"(m {"prompt":"a","add_special_tokens":true})",
                                      R"(m {"prompt":"b","add_special_tokens":true})"}));
  EXPECT_TRUE(metrics_.render().contains("llmd_render_calls_total{result=\"answered\"} 2"));
}

TEST_F(GrpcCalls, PassOnErrors) {
  service_.emplace(loop_, path_);
  EXPECT_EQ(render("[]", true), "the request is no JSON object");
  service_->error = "no such model";
  EXPECT_EQ(render(kChat, true), "no such model");
  EXPECT_TRUE(metrics_.render().contains("llmd_render_calls_total{result=\"failed\"} 2"));
}

TEST_F(GrpcCalls, RefuseWhatNoMessageHolds) {
  service_.emplace(loop_, path_);
  const std::string text(RenderClient::kMessageBytesMax, 'x');
  EXPECT_EQ(render(R"({"prompt":")" + text + "\"}", false),
            "the request is too large for the tokenization service");
  EXPECT_EQ(service_->calls.size(), 0u);
}

TEST_F(GrpcCalls, InitializeTheModelWithPauses) {
  service_.emplace(loop_, path_);
  service_->error = "still loading";
  client_.warm_up(spec_, {.model = "m",
                          .timeout = std::chrono::seconds(5),
                          .media_timeout = std::chrono::seconds(30)});
  const auto& calls = service_->calls;
  pump(loop_, [&] { return calls.size() == 1; });
  for (int pause = 1; pause < RenderClient::kInitializationsMax - 1; ++pause) {
    settle();
    clock_.advance(pause * RenderClient::kInitializationPause - std::chrono::milliseconds(10));
    settle();
    EXPECT_EQ(calls.size(), static_cast<size_t>(pause)) << "too early";
    clock_.advance(std::chrono::milliseconds(12));
    pump(loop_, [&] { return calls.size() == static_cast<size_t>(pause) + 1; });
  }
  settle();
  service_->error = "";
  clock_.advance(4 * RenderClient::kInitializationPause + std::chrono::milliseconds(2));
  pump(loop_, [&] { return calls.size() == 6; });
  EXPECT_EQ(calls[4], "initialize m");
  EXPECT_TRUE(calls[5].contains("warmup"));
  settle();
  EXPECT_FALSE(metrics_.render().contains("llmd_render_calls_total{result=\"failed\"} 1"));
}

TEST_F(GrpcCalls, InitializeTheModelAgainWhenTheServiceWasAway) {
  client_.warm_up(spec_, {.model = "m", .timeout = {}, .media_timeout = std::chrono::seconds(30)});
  for (int pause = 0; pause < 12; ++pause) {  // all tries
    settle();
    clock_.advance(RenderClient::kInitializationPause + std::chrono::milliseconds(2));
  }
  settle();
  EXPECT_EQ(render(kChat, true), "cannot connect");
  EXPECT_TRUE(render(kChat, true).ends_with("cannot be reached"));
  settle();
  service_.emplace(loop_, path_);
  clock_.advance(RenderClient::kInitializationPause + std::chrono::milliseconds(2));
  pump(loop_, [&] { return service_->calls.size() == 2; });
  EXPECT_EQ(service_->calls[0], "initialize m");
  EXPECT_EQ(render(kChat, true), "3,");
}

}  // namespace
}  // namespace llmd::render
