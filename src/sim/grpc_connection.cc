#include "connection.h"
#include "grpc_api.h"

#include "http/grpc_status.h"
#include "sim/tokenizer.h"

#include <array>

/// The calls of vLLM's gRPC service on a connection: the same engine, other bytes.
namespace llmd::sim {
namespace {

constexpr std::string_view kType = "application/grpc";

}  // namespace

void Connection::grpc_refuse(http::Exchange& x, const ApiError& error) {
  const auto status = std::to_string(http::grpc_status(error.status));
  auto headers = answer_headers(kType);
  headers.push_back({"grpc-status", status});
  headers.push_back({"grpc-message", error.message});
  x.respond(200, headers, {});
}

void Connection::grpc_generate(http::Exchange& x, std::string_view body) {
  if (!grpc_) return respond(x, 415, "application/json", R"({"detail":"Not a gRPC request"})");
  Endpoint& e = endpoint_;
  if (e.draining) return refuse(x, {503, "server is shutting down"});
  const Draws draws(static_cast<uint64_t>(e.config.seed) ^ (uint64_t(e.config.port) << 48),
                    e.next_request);
  e.next_id();
  if (const auto failure = fail_on_request(x, draws)) return refuse(x, *failure);
  if (const auto error = read_grpc_generation(body, request_)) return refuse(x, *error);
  if (const auto error = check_room()) return refuse(x, *error);
  begin(x, -1, draws);
}

void Connection::grpc_model_info(http::Exchange& x, std::string_view) {
  if (!grpc_) return respond(x, 415, "application/json", R"({"detail":"Not a gRPC request"})");
  std::string& message = endpoint_.scratch;
  message.clear();
  append_grpc_model_info(message, endpoint_.config.display_model(), endpoint_.config.max_model_len);
  exchange_ = &x;
  x.start(200, answer_headers(kType));
  x.write(message);
  grpc_finish(nullptr);
}

/// Ends the call that is answered, well or with `error`.
void Connection::grpc_finish(const ApiError* error) {
  http::Exchange& x = *std::exchange(exchange_, nullptr);
  const auto status = std::to_string(error ? http::grpc_status(error->status) : 0);
  std::array<HeaderField, 2> trailers = {{{"grpc-status", status}, {"grpc-message", {}}}};
  if (error) trailers[1].value = error->message;
  x.finish(std::span(trailers).first(error ? 2 : 1));
}

void Connection::grpc_answer() {
  std::string& message = endpoint_.scratch;
  message.clear();
  const Usage usage = usage_of(request_, choices_);
  std::vector<uint32_t> ids;
  for (Choice& choice : choices_) {
    ids.clear();
    while (choice.written++ < choice.emitted) ids.push_back(token_id(choice.output.next()));
    append_grpc_complete(message, ids, choice.finish, usage);
  }
  exchange_->start(200, answer_headers(kType));
  exchange_->write(message);
  grpc_finish(nullptr);
}

void Connection::grpc_stream(Choice& choice) {
  if (!std::exchange(started_, true)) exchange_->start(200, answer_headers(kType));
  std::string& message = endpoint_.scratch;
  message.clear();
  const Usage usage = usage_of(request_, choices_);
  for (; choice.written < choice.emitted; ++choice.written)
    append_grpc_chunk(message, token_id(choice.output.next()), usage);
  if (choice.ended()) append_grpc_complete(message, {}, choice.finish, usage);
  if (!message.empty()) exchange_->write(message);
  if (choice.ended() && open_choices_ == 0) grpc_finish(nullptr);
}

}  // namespace llmd::sim
