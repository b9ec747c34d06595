#include "http_api.h"

#include "render/waiting.h"
#include "service/http_handler.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace llmd::token_service {
namespace {

using nlohmann::json;

constexpr std::string_view kChat = "/v1/chat/completions/render";
constexpr std::string_view kCompletions = "/v1/completions/render";

json prompt_json(const render::RenderedPrompt& prompt, const std::string& model) {
  return {{"token_ids", prompt.token_ids}, {"features", nullptr}, {"model", model}};
}

class Handler final : public service::HttpHandler {
 public:
  Handler(const Models& models, Nanos timeout, metric::Registry& metrics)
      : HttpHandler(metrics), models_(models), timeout_(timeout) {}

  void on_abort(http::Exchange&, http::AbortCause) override { waiting_.cancel(); }

 private:
  bool has(std::string_view path) const override { return path == kChat || path == kCompletions; }

  void on_post(http::Exchange& exchange, std::string_view path, std::string_view body) override {
    const bool chat = path == kChat;
    std::string model = model_of(body);
    const auto renderer = models_.find(model);
    if (!renderer)
      return refuse(exchange, http_status(renderer.error().code), renderer.error().message);
    waiting_.ask(
        exchange.loop(), **renderer, {.chat = chat, .body = std::string(body), .timeout = timeout_},
        [&exchange, chat, model = std::move(model)](const render::Rendered& prompts) {
          if (!prompts)
            return refuse(exchange, http_status(prompts.error().code), prompts.error().message);
          json answer = json::array();
          for (const auto& prompt : *prompts) answer.push_back(prompt_json(prompt, model));
          respond_json(exchange, (chat ? answer.at(0) : answer).dump());
        });
  }

  const Models& models_;
  const Nanos timeout_;
  render::Waiting waiting_;
};

}  // namespace

std::unique_ptr<http::RequestHandler> http_handler(const Models& models, Nanos timeout,
                                                   metric::Registry& metrics) {
  return std::make_unique<Handler>(models, timeout, metrics);
}

}  // namespace llmd::token_service
