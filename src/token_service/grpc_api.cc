#include "grpc_api.h"

#include "waiting.h"

#include "render/token_messages.h"

#include <functional>
#include <string>
#include <utility>

namespace llmd::token_service {
namespace {

using render::TokenMethod;
using Read = Result<render::Asked> (*)(std::string_view message);

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
  RenderCall(grpc::Call& call, const Models& models, Nanos timeout, const TokenMethod& method,
             Read read)
      : Unary(call), models_(models), timeout_(timeout), method_(method), read_(read) {}
  void on_abort(grpc::StatusCode) override { waiting_.cancel(); }

 private:
  void on_request(std::string_view message) override {
    auto asked = read_(message);
    if (!asked) return call_.finish(grpc::StatusCode::kInvalidArgument, asked.error().message);
    const auto renderer = models_.find(asked->model);
    if (!renderer) return say(std::unexpected(renderer.error()));
    waiting_.ask(call_.loop(), **renderer,
                 {.chat = asked->chat, .body = std::move(asked->body), .timeout = timeout_},
                 [this](const render::Rendered& prompts) { say(prompts); });
  }

  void say(const render::Rendered& prompts) {
    answer(render::write_answer(method_, "render-" + std::to_string(call_.loop().rng().next()),
                                prompts));
  }

  const Models& models_;
  const Nanos timeout_;
  const TokenMethod& method_;
  const Read read_;
  Waiting waiting_;
};

class InitializeCall final : public Unary {
 public:
  InitializeCall(grpc::Call& call, const Models& models) : Unary(call), models_(models) {}

 private:
  void on_request(std::string_view message) override {
    const auto model = render::read_initialize(message);
    if (!model) return call_.finish(grpc::StatusCode::kInvalidArgument, model.error().message);
    const auto found = models_.find(*model);
    answer(render::write_initialized(found ? Status() : std::unexpected(found.error())));
  }

  const Models& models_;
};

}  // namespace

std::vector<grpc::Method> grpc_methods(const Models& models, Nanos timeout) {
  const auto tokens = [&](const TokenMethod& method, Read read) {
    return grpc::Method{std::string(method.path),
                        [&models, timeout, &method, read](grpc::Call& call) {
                          return std::make_unique<RenderCall>(call, models, timeout, method, read);
                        }};
  };
  return {tokens(render::kTokenize, render::read_tokenize),
          tokens(render::kRenderCompletion, render::read_completion),
          tokens(render::kRenderChat, render::read_chat),
          {std::string(render::kInitialize),
           [&models](grpc::Call& call) { return std::make_unique<InitializeCall>(call, models); }}};
}

}  // namespace llmd::token_service
