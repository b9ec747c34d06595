#include "admin.h"
#include "connection.h"
#include "grpc_api.h"
#include "render.h"

#include "base/text.h"
#include "sim/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmd::sim {

using nlohmann::json;

/// A path with what each method does; null: the method is not allowed.
struct Connection::Route {
  using Handle = void (Connection::*)(http::Exchange&, std::string_view);
  std::string_view path;
  Handle get = nullptr;
  Handle post = nullptr;
};

const Connection::Route* Connection::find_route(std::string_view path) {
  using C = Connection;
  static constexpr Route kRoutes[] = {
      {"/v1/chat/completions", nullptr, &C::chat},
      {"/v1/completions", nullptr, &C::completions},
      {"/v1/chat/completions/render", nullptr, &C::render_chat},
      {"/v1/completions/render", nullptr, &C::render_completions},
      {"/metrics", &C::metrics},
      {"/health", &C::ok},
      {"/health/ready", &C::ready},
      {"/v1/models", &C::models},
      {"/kv_event_sources", &C::event_sources},
      {kGrpcGenerate, nullptr, &C::grpc_generate},
      {kGrpcModelInfo, nullptr, &C::grpc_model_info},
      {"/ping", &C::ok, &C::ok},
      {"/version", &C::version},
      {"/load", &C::load},
      {"/tokenize", nullptr, &C::tokenize_text},
      {"/reset_prefix_cache", nullptr, &C::reset_prefix_cache},
      {"/v1/load_lora_adapter", nullptr, &C::load_adapter},
      {"/v1/unload_lora_adapter", nullptr, &C::unload_adapter},
      {"/admin/config", &C::show_admin, &C::change_admin},
  };
  for (const Route& route : kRoutes)
    if (route.path == path) return &route;
  return nullptr;
}

void Connection::on_request(http::Exchange& x) {
  grpc_ = false;
  const uint64_t most = uint64_t(endpoint_.config.max_request_body_size_mb) << 20;
  if (x.head().framing == http::Framing::kLength && x.head().content_length > most)
    refuse(x, {413, fmt::format("Request body of {} bytes is larger than {} MiB",
                                x.head().content_length, most >> 20)});
}

void Connection::on_request_end(http::Exchange& x, std::string_view body) {
  request_id_.clear();
  grpc_ = x.head().http2 && x.head().headers.get("content-type").starts_with("application/grpc");
  const Route* route = find_route(x.head().path());
  if (grpc_ && !route) return refuse(x, {501, "unknown method"});
  if (!route) return respond(x, 404, "application/json", R"({"detail":"Not Found"})");
  const bool reads = x.head().method == "GET" || x.head().method == "HEAD";
  const auto handle = reads ? route->get : x.head().method == "POST" ? route->post : nullptr;
  if (handle) return (this->*handle)(x, body);
  const std::string_view allowed = route->get && route->post ? "GET, POST"
                                   : route->get              ? "GET"
                                                             : "POST";
  x.respond(405, {{"content-type", "application/json"}, {"allow", allowed}},
            R"({"detail":"Method Not Allowed"})");
}

void Connection::ok(http::Exchange& x, std::string_view) {
  x.respond(200, {}, "");
}

void Connection::ready(http::Exchange& x, std::string_view) {
  x.respond(endpoint_.starting() || endpoint_.draining ? 503 : 200, {}, "");
}

void Connection::version(http::Exchange& x, std::string_view) {
  // The release of vLLM whose surface this is.
  respond(x, 200, "application/json", R"({"version":"0.32.0"})");
}

void Connection::load(http::Exchange& x, std::string_view) {
  const Counters& c = endpoint_.engine.counters();
  respond(x, 200, "application/json",
          fmt::format(R"({{"server_load":{}}})", c.running + c.waiting));
}

void Connection::models(http::Exchange& x, std::string_view) {
  respond(x, 200, "application/json", endpoint_.models_body());
}

void Connection::event_sources(http::Exchange& x, std::string_view) {
  respond(x, 200, "application/json", endpoint_.event_sources_body());
}

void Connection::metrics(http::Exchange& x, std::string_view) {
  x.respond(200, {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
            endpoint_.page.render(endpoint_.unix_seconds()));
}

void Connection::reset_prefix_cache(http::Exchange& x, std::string_view) {
  endpoint_.engine.reset_prefix_cache();
  x.respond(200, {}, "");
}

void Connection::tokenize_text(http::Exchange& x, std::string_view body) {
  json parsed;
  if (const auto error = parse_object(body, parsed)) return refuse(x, *error);
  ++endpoint_.next_request;  // this call has an id, too, though nothing shows it
  const std::string model = requested_model(parsed);
  if (!endpoint_.serves(model) && endpoint_.engine.find_adapter(model) < 0)
    return refuse(x, {404, fmt::format("The model `{}` does not exist.", model)});
  const bool has_prompt = parsed.contains("prompt"), has_messages = parsed.contains("messages");
  if (has_prompt == has_messages)
    return refuse(x, {400, "exactly one of prompt and messages must be given"});
  if (has_prompt ? !parsed["prompt"].is_string() : !parsed["messages"].is_array())
    return refuse(x, {400, "prompt must be a string and messages an array"});
  const auto objects = [](const json& list) {
    return std::ranges::all_of(list, [](const json& item) { return item.is_object(); });
  };
  if (has_messages && !objects(parsed["messages"]))
    return refuse(x, {400, "messages must contain only objects", "messages"});

  const std::string text =
      has_prompt ? parsed["prompt"].get<std::string>() : chat_prompt(parsed["messages"]);
  std::vector<std::string_view> pieces;
  split_tokens(text, pieces);
  std::string ids, texts;
  for (const auto piece : pieces) {
    fmt::format_to(std::back_inserter(ids), "{}{}", ids.empty() ? "" : ",", token_id(piece));
    texts += texts.empty() ? "\"" : ",\"";
    append_json_escaped(texts, piece);
    texts += '"';
  }
  const json strings = parsed.value("return_token_strs", json());
  respond(x, 200, "application/json",
          fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":{}}})",
                      pieces.size(), endpoint_.config.max_model_len, ids,
                      strings == true ? "[" + texts + "]" : "null"));
}

void Connection::render(http::Exchange& x, std::string_view body, bool chat) {
  json parsed;
  if (const auto error = parse_object(body, parsed)) return refuse(x, *error);
  const std::string model = requested_model(parsed);
  if (!endpoint_.serves(model) && endpoint_.engine.find_adapter(model) < 0)
    return refuse(x, {404, fmt::format("The model `{}` does not exist.", model)});
  GenerationRequest request;
  if (const auto error = read_generation(parsed, chat, request)) return refuse(x, *error);
  if (const auto error = check_context(request, endpoint_.config.max_model_len))
    return refuse(x, *error);
  respond(x, 200, "application/json",
          render_answer(parsed, request, (chat ? "chatcmpl-" : "cmpl-") + endpoint_.next_id(),
                        model.empty() ? endpoint_.config.display_model() : model));
}

void Connection::load_adapter(http::Exchange& x, std::string_view body) {
  json parsed;
  if (const auto error = parse_object(body, parsed)) return refuse(x, *error);
  const auto name = parsed.value("lora_name", json()), path = parsed.value("lora_path", json());
  if (!name.is_string() || name.get_ref<const std::string&>().empty() || !path.is_string())
    return refuse(x, {400, "Both 'lora_name' and 'lora_path' must be provided."});
  endpoint_.engine.load_adapter(name, path);
  respond(x, 200, "text/plain; charset=utf-8",
          fmt::format("Success: LoRA adapter '{}' added successfully.", name.get<std::string>()));
}

void Connection::unload_adapter(http::Exchange& x, std::string_view body) {
  json parsed;
  if (const auto error = parse_object(body, parsed)) return refuse(x, *error);
  const auto name = parsed.value("lora_name", json());
  if (!name.is_string()) return refuse(x, {400, "'lora_name' must be provided."});
  const std::string text = name.get<std::string>();
  if (!endpoint_.engine.unload_adapter(text))
    return refuse(x, {404, fmt::format("The lora adapter '{}' cannot be found.", text)});
  respond(x, 200, "text/plain; charset=utf-8",
          fmt::format("Success: LoRA adapter '{}' removed successfully.", text));
}

void Connection::show_admin(http::Exchange& x, std::string_view) {
  respond(x, 200, "application/json", show_config(endpoint_.config, endpoint_.address));
}

void Connection::change_admin(http::Exchange& x, std::string_view body) {
  ServerConfig changed = endpoint_.config;
  if (const auto error = update_config(changed, body)) return refuse(x, *error);
  endpoint_.reconfigure(std::move(changed));
  show_admin(x, {});
}

}  // namespace llmd::sim
