#include "grpc_api.h"

#include "messages.h"
#include "waiting.h"

#include <functional>
#include <string>
#include <utility>

namespace llmd::token_service {
namespace {

using Read = Result<Asked> (*)(std::string_view message);
using Answer = std::string (*)(std::string_view id, const Rendered& prompts);

/// A call with one message and one answer.
class Unary : public grpc::CallHandler {
 public:
  explicit Unary(grpc::Call& call) : call_(call) {}
  void on_half_close() final {
    if (!asked_) call_.finish(grpc::StatusCode::kInvalidArgument, "there is no request");
  }
  void on_message(std::string_view message) final {
    if (std::exchange(asked_, true))
      return call_.finish(grpc::StatusCode::kInvalidArgument, "there is more than one request");
    on_request(message);
  }
  void on_abort(grpc::StatusCode) override {}

 protected:
  virtual void on_request(std::string_view message) = 0;
  void answer(const std::string& message) {
    call_.send({grpc::Piece{.bytes = message, .stays = false}});
    call_.finish(grpc::StatusCode::kOk);
  }

  grpc::Call& call_;

 private:
  bool asked_ = false;
};

class RenderCall final : public Unary {
 public:
  RenderCall(grpc::Call& call, const Models& models, Nanos timeout, Read read, Answer write)
      : Unary(call), models_(models), timeout_(timeout), read_(read), write_(write) {}
  void on_abort(grpc::StatusCode) override { waiting_.cancel(); }

 private:
  void on_request(std::string_view message) override {
    auto asked = read_(message);
    if (!asked) return call_.finish(grpc::StatusCode::kInvalidArgument, asked.error().message);
    const auto renderer = models_.find(asked->model);
    if (!renderer) return say(std::unexpected(renderer.error()));
    waiting_.ask(call_.loop(), **renderer,
                 {.chat = asked->chat, .body = std::move(asked->body), .timeout = timeout_},
                 [this](const Rendered& prompts) { say(prompts); });
  }

  void say(const Rendered& prompts) {
    answer(write_("render-" + std::to_string(call_.loop().rng().next()), prompts));
  }

  const Models& models_;
  const Nanos timeout_;
  const Read read_;
  const Answer write_;
  Waiting waiting_;
};

class InitializeCall final : public Unary {
 public:
  InitializeCall(grpc::Call& call, const Models& models) : Unary(call), models_(models) {}

 private:
  void on_request(std::string_view message) override {
    const auto model = read_initialize(message);
    if (!model) return call_.finish(grpc::StatusCode::kInvalidArgument, model.error().message);
    const auto found = models_.find(*model);
    answer(initialize_answer(found ? Status() : std::unexpected(found.error())));
  }

  const Models& models_;
};

}  // namespace

std::vector<grpc::Method> grpc_methods(const Models& models, Nanos timeout) {
  const std::string service = "/tokenization.TokenizationService/";
  const auto render = [&](const char* name, Read read, Answer write) {
    return grpc::Method{service + name, [&models, timeout, read, write](grpc::Call& call) {
                          return std::make_unique<RenderCall>(call, models, timeout, read, write);
                        }};
  };
  return {render("Tokenize", read_tokenize, tokenize_answer),
          render("RenderCompletion", read_completion, completion_answer),
          render("RenderChatCompletion", read_chat, chat_answer),
          {service + "InitializeTokenizer",
           [&models](grpc::Call& call) { return std::make_unique<InitializeCall>(call, models); }}};
}

}  // namespace llmd::token_service
