#include "grpc_api.h"

#include "grpc/unary_handler.h"
#include "render/token_messages.h"
#include "render/waiting.h"

#include <functional>
#include <string>
#include <utility>

namespace llmd::token_service {
namespace {

using render::TokenMethod;
using Read = Result<render::Asked> (*)(std::string_view message);

class RenderCall final : public grpc::UnaryHandler {
 public:
  RenderCall(grpc::Call& call, const Models& models, Nanos timeout, const TokenMethod& method,
             Read read)
      : UnaryHandler(call), models_(models), timeout_(timeout), method_(method), read_(read) {}
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
  render::Waiting waiting_;
};

class InitializeCall final : public grpc::UnaryHandler {
 public:
  InitializeCall(grpc::Call& call, const Models& models) : UnaryHandler(call), models_(models) {}

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
