#include "token_service/server.h"

#include "grpc_api.h"
#include "http_api.h"
#include "models.h"

#include "grpc/server.h"
#include "http/server.h"
#include "io/byte_budget.h"

#include <optional>
#include <utility>

namespace llmd::token_service {
namespace {

constexpr size_t kConnectionsMax = 1024;

http::ServerOptions http_options(const ServerOptions& options, size_t body_bytes_max,
                                 size_t bodies_bytes_max) {
  http::ServerOptions http;
  http.host = options.host;
  http.port = options.http_port;
  http.connections_max = kConnectionsMax;
  http.body_bytes_max = body_bytes_max;
  http.body_budget = std::make_shared<io::ByteBudget>(bodies_bytes_max);
  return http;
}

grpc::ServerOptions grpc_options(const ServerOptions& options, size_t message_bytes_max) {
  grpc::ServerOptions grpc;
  grpc.host = options.host;
  grpc.port = options.grpc_port;
  grpc.connections_max = kConnectionsMax;
  grpc.message_bytes_max = message_bytes_max;
  return grpc;
}

}  // namespace

struct Server::State {
  State(io::Loop& loop, ServerOptions o, std::vector<NamedModel> named, metric::Registry& metrics)
      : options(std::move(o)),
        models(std::move(named)),
        http(loop, http_options(options, kBodyBytesMax, kBodiesBytesMax),
             [this, &metrics] { return http_handler(models, options.timeout, metrics); }) {
    const auto grpc_metrics = grpc::ServerMetrics::of(metrics);
    const auto add = [&](std::string socket_path) {
      auto with = grpc_options(options, kBodyBytesMax);
      with.socket_path = std::move(socket_path);
      grpc.push_back(std::make_unique<grpc::Server>(
          loop, std::move(with), grpc_methods(models, options.timeout), budget, grpc_metrics));
    };
    if (options.grpc_on_tcp) add("");
    if (!options.socket_path.empty()) add(options.socket_path);
  }

  const ServerOptions options;
  const Models models;
  io::ByteBudget budget{kBodiesBytesMax};
  http::Server http;
  std::vector<std::unique_ptr<grpc::Server>> grpc;  // on TCP first
};

Server::Server(io::Loop& loop, ServerOptions options, std::vector<NamedModel> models,
               metric::Registry& metrics)
    : state_(std::make_unique<State>(loop, std::move(options), std::move(models), metrics)) {}
Server::~Server() = default;

Status Server::listen() {
  LLMD_TRY(state_->http.listen());
  for (const auto& server : state_->grpc) LLMD_TRY(server->listen());
  return {};
}

uint16_t Server::http_port() const {
  return state_->http.port();
}
uint16_t Server::grpc_port() const {
  return state_->options.grpc_on_tcp ? state_->grpc.front()->port() : 0;
}

void Server::stop(Nanos grace, std::move_only_function<void()> done) {
  auto left = std::make_shared<size_t>(state_->grpc.size() + 1);
  const auto all = std::make_shared<std::move_only_function<void()>>(std::move(done));
  const auto one = [left, all] {
    if (--*left == 0) (*all)();
  };
  state_->http.stop(grace, one);
  for (const auto& server : state_->grpc) server->stop(grace, one);
}

}  // namespace llmd::token_service
