#include "server_calls.h"

#include "base/log.h"
#include "fetch/unary.h"
#include "io/byte_budget.h"
#include "render/render_client.h"
#include "render/token_messages.h"

#include <algorithm>
#include <utility>

namespace llmd::render {
namespace {

constexpr size_t kMessageBytesMax = RenderClient::kMessageBytesMax;

/// A question of several prompts is a call for each, one after the other, in the time of one.
struct GrpcCall final : ServerCall, fetch::Unary {
  GrpcCall(io::Loop& l, http::Http2Client& client) : Unary(l, client, kMessageBytesMax), loop(l) {}

  bool active() const override { return done != nullptr; }
  void ask(RenderServer& to, Question question, Done then) override {
    server = &to;
    done = std::move(then);
    deadline = loop.clock().now() + question.timeout;
    prompts.clear();
    // The messages are not larger.
    if (question.body.size() > kMessageBytesMax)
      return end_with(
          fail(Code::kBadRequest, "the request is too large for the tokenization service"));
    auto written = write_requests(question.body, question.chat);
    if (!written) return end_with(std::unexpected(std::move(written).error()));
    requests = std::move(*written);
    next();
  }

 private:
  void next() {
    const auto& [method, message] = requests[prompts.size()];
    start(server->address, method->path, message,
          std::max(deadline - loop.clock().now(), Nanos(0)));
  }
  void on_answer(std::string_view message) override {
    answer = read_answer(*requests[prompts.size()].method, message);
  }
  void on_ended(std::string_view why, bool reached) override {
    if (!why.empty()) return end_with(fail(Code::kServiceUnavailable, std::string(why)), reached);
    if (!answer) return end_with(std::unexpected(answer.error()));
    prompts.push_back(std::move(*answer));
    if (prompts.size() < requests.size()) return next();
    end_with(std::move(prompts));
  }
  void end_with(Rendered outcome, bool reached = true) {
    requests.clear();
    std::exchange(done, nullptr)(std::move(outcome), reached);
  }

  io::Loop& loop;
  RenderServer* server = nullptr;
  Done done;
  TimePoint deadline{};
  std::vector<TokenRequest> requests;
  Result<RenderedPrompt> answer;
  std::vector<RenderedPrompt> prompts;
};

/// Has the service open the model's tokenizer, then render a chat.
struct GrpcWarmer final : Warmer, fetch::Unary {
  GrpcWarmer(io::Loop& loop, http::Http2Client& client, RenderServer& to, WarmUp of)
      : Unary(loop, client, kMessageBytesMax), server(to), what(std::move(of)), timer(loop) {
    ask();
  }

 private:
  void ask() {
    start(server.address, kInitialize, write_initialize(what.model), what.media_timeout);
  }
  void on_answer(std::string_view message) override {
    if (!initialized) outcome = read_initialized(message);
  }
  void on_ended(std::string_view why, bool) override {
    if (initialized) {
      done_ = true;
      return;
    }
    if (!why.empty()) outcome = fail(Code::kServiceUnavailable, std::string(why));
    if (outcome) {
      initialized = true;
      const auto chat = write_requests(warm_up_body(what.model, false), true);
      return start(server.address, kRenderChat.path, chat->front().message, what.media_timeout);
    }
    if (++tries < RenderClient::kInitializationsMax)
      return timer.arm(tries * RenderClient::kInitializationPause, [this] { ask(); });
    log::warn("a tokenization service did not initialize the model",
              {{"server", server.address.name()},
               {"model", what.model},
               {"why", outcome.error().message}});
    done_ = true;
  }

  RenderServer& server;
  const WarmUp what;
  io::Timer timer;
  Status outcome;
  int tries = 0;
  bool initialized = false;
};

class Grpc final : public Protocol {
 public:
  explicit Grpc(io::Loop& loop) : loop_(loop), client_(loop, {}, budget_) {}
  std::unique_ptr<ServerCall> call() override { return std::make_unique<GrpcCall>(loop_, client_); }
  std::unique_ptr<Warmer> warm_up(RenderServer& server, WarmUp what) override {
    return std::make_unique<GrpcWarmer>(loop_, client_, server, std::move(what));
  }

 private:
  io::Loop& loop_;
  io::ByteBudget budget_{UINT64_MAX};  // each message has its own bound
  http::Http2Client client_;
};

}  // namespace

std::unique_ptr<Protocol> grpc_protocol(io::Loop& loop) {
  return std::make_unique<Grpc>(loop);
}

}  // namespace llmd::render
