#include "service/servers.h"

#include "io/byte_budget.h"

#include <utility>

namespace llmd::service {
namespace {

constexpr size_t kConnectionsMax = 1024;

http::ServerOptions http_options(const ServersOptions& options) {
  http::ServerOptions http;
  http.host = options.host;
  http.port = options.http_port;
  http.connections_max = kConnectionsMax;
  http.body_bytes_max = options.body_bytes_max;
  http.body_budget = std::make_shared<io::ByteBudget>(options.buffered_bytes_max);
  return http;
}

grpc::ServerOptions grpc_options(const ServersOptions& options, std::string socket_path) {
  grpc::ServerOptions grpc;
  grpc.host = options.host;
  grpc.port = options.grpc_port;
  grpc.socket_path = std::move(socket_path);
  grpc.connections_max = kConnectionsMax;
  grpc.message_bytes_max = options.body_bytes_max;
  return grpc;
}

}  // namespace

struct Servers::State {
  State(io::Loop& loop, ServersOptions o,
        std::function<std::unique_ptr<http::RequestHandler>()> http_handler,
        const std::vector<grpc::Method>& methods, metric::Registry& metrics)
      : options(std::move(o)),
        budget(options.buffered_bytes_max),
        http(loop, http_options(options), std::move(http_handler)) {
    const auto grpc_metrics = grpc::ServerMetrics::of(metrics);
    const auto add = [&](std::string socket_path) {
      grpc.push_back(std::make_unique<grpc::Server>(
          loop, grpc_options(options, std::move(socket_path)), methods, budget, grpc_metrics));
    };
    if (options.grpc_on_tcp) add("");
    if (!options.socket_path.empty()) add(options.socket_path);
  }

  const ServersOptions options;
  io::ByteBudget budget;
  http::Server http;
  std::vector<std::unique_ptr<grpc::Server>> grpc;  // on TCP first
};

Servers::Servers(io::Loop& loop, ServersOptions options,
                 std::function<std::unique_ptr<http::RequestHandler>()> http_handler,
                 const std::vector<grpc::Method>& methods, metric::Registry& metrics)
    : state_(std::make_unique<State>(loop, std::move(options), std::move(http_handler), methods,
                                     metrics)) {}
Servers::~Servers() = default;

Status Servers::listen() {
  LLMD_TRY(state_->http.listen());
  for (const auto& server : state_->grpc) LLMD_TRY(server->listen());
  return {};
}

uint16_t Servers::http_port() const {
  return state_->http.port();
}
uint16_t Servers::grpc_port() const {
  return state_->options.grpc_on_tcp ? state_->grpc.front()->port() : 0;
}

void Servers::stop(Nanos grace, std::move_only_function<void()> done) {
  auto left = std::make_shared<size_t>(state_->grpc.size() + 1);
  const auto all = std::make_shared<std::move_only_function<void()>>(std::move(done));
  const auto one = [left, all] {
    if (--*left == 0) (*all)();
  };
  state_->http.stop(grace, one);
  for (const auto& server : state_->grpc) server->stop(grace, one);
}

}  // namespace llmd::service
