#include "token_service/server.h"

#include "grpc_api.h"
#include "http_api.h"
#include "models.h"

#include <utility>

namespace llmd::token_service {

struct Server::State {
  State(io::Loop& loop, service::ServersOptions options, std::vector<NamedModel> named,
        metric::Registry& metrics)
      : models(std::move(named)),
        servers(
            loop, std::move(options),
            [this, &metrics] { return http_handler(models, kTimeout, metrics); },
            grpc_methods(models, kTimeout), metrics) {}

  const Models models;
  service::Servers servers;
};

Server::Server(io::Loop& loop, service::ServersOptions options, std::vector<NamedModel> models,
               metric::Registry& metrics)
    : state_(std::make_unique<State>(loop, std::move(options), std::move(models), metrics)) {}
Server::~Server() = default;

service::Servers& Server::servers() {
  return state_->servers;
}

}  // namespace llmd::token_service
