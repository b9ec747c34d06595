#include "service/http_handler.h"

#include <nlohmann/json.hpp>

#include <string>

namespace llmd::service {
namespace {

using nlohmann::json;

constexpr HeaderField kJson{"Content-Type", "application/json"};
constexpr HeaderField kText{"Content-Type", "text/plain; charset=utf-8"};
constexpr HeaderField kPage{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"};

}  // namespace

void HttpHandler::on_request_end(http::Exchange& exchange, std::string_view body) {
  const auto path = exchange.head().path();
  if (path == "/healthz" || path == "/health") return exchange.respond(200, {kText}, "ok\n");
  if (path == "/readyz") {
    const auto why = unready();
    return exchange.respond(why.empty() ? 200 : 503, {kText}, why.empty() ? "ok\n" : why);
  }
  if (path == "/metrics") return exchange.respond(200, {kPage}, metrics_.render());
  if (!has(path)) return refuse(exchange, 404, "there is nothing at this path");
  if (exchange.head().method != "POST") return refuse(exchange, 405, "only POST");
  on_post(exchange, path, body);
}

void HttpHandler::respond_json(http::Exchange& exchange, std::string_view json) {
  exchange.respond(200, {kJson}, json);
}

void HttpHandler::refuse(http::Exchange& exchange, int status, std::string_view message) {
  const json error = {{"message", message}, {"type", "invalid_request_error"}, {"code", status}};
  exchange.respond(status, {kJson},
                   json{{"error", error}}.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace llmd::service
