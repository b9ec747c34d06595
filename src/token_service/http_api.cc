#include "http_api.h"

#include "waiting.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

namespace llmd::token_service {
namespace {

using nlohmann::json;

constexpr HeaderField kJson{"Content-Type", "application/json"};
constexpr HeaderField kText{"Content-Type", "text/plain; charset=utf-8"};
constexpr HeaderField kPage{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"};

void refuse(http::Exchange& exchange, int status, const std::string& message) {
  const json error = {{"message", message}, {"type", "invalid_request_error"}, {"code", status}};
  exchange.respond(status, {kJson},
                   json{{"error", error}}.dump(-1, ' ', false, json::error_handler_t::replace));
}

json prompt_json(const render::RenderedPrompt& prompt, const std::string& model) {
  return {{"token_ids", prompt.token_ids}, {"features", nullptr}, {"model", model}};
}

class Handler final : public http::RequestHandler {
 public:
  Handler(const Models& models, Nanos timeout, metric::Registry& metrics)
      : models_(models), timeout_(timeout), metrics_(metrics) {}

  void on_request_end(http::Exchange& exchange, std::string_view body) override {
    const auto path = exchange.head().path();
    const bool chat = path == "/v1/chat/completions/render";
    if (chat || path == "/v1/completions/render") {
      if (exchange.head().method != "POST") return refuse(exchange, 405, "only POST");
      return render(exchange, body, chat);
    }
    if (path == "/healthz" || path == "/health") return exchange.respond(200, {kText}, "ok\n");
    if (path == "/metrics") return exchange.respond(200, {kPage}, metrics_.render());
    refuse(exchange, 404, "there is nothing at this path");
  }

  void on_abort(http::Exchange&, http::AbortCause) override { waiting_.cancel(); }

 private:
  void render(http::Exchange& exchange, std::string_view body, bool chat) {
    std::string model = model_of(body);
    const auto renderer = models_.find(model);
    if (!renderer) return refuse(exchange, 404, renderer.error().message);
    waiting_.ask(
        exchange.loop(), **renderer, {.chat = chat, .body = std::string(body), .timeout = timeout_},
        [&exchange, chat, model = std::move(model)](const render::Rendered& prompts) {
          if (!prompts)
            return refuse(exchange, http_status(prompts.error().code), prompts.error().message);
          json answer = json::array();
          for (const auto& prompt : *prompts) answer.push_back(prompt_json(prompt, model));
          exchange.respond(200, {kJson}, (chat ? answer.at(0) : answer).dump());
        });
  }

  const Models& models_;
  const Nanos timeout_;
  metric::Registry& metrics_;
  Waiting waiting_;
};

}  // namespace

std::unique_ptr<http::RequestHandler> http_handler(const Models& models, Nanos timeout,
                                                   metric::Registry& metrics) {
  return std::make_unique<Handler>(models, timeout, metrics);
}

}  // namespace llmd::token_service
