#include "kv_indexer/server.h"

#include "api.h"

#include <array>
#include <utility>

namespace llmd::kv_indexer {
namespace {

const metric::Definition kRequests = {.name = "llmd_kv_indexer_requests_total",
                                      .kind = metric::Kind::kCounter,
                                      .help = "Requests for the scores of pods.",
                                      .labels = {"api", "result"},
                                      .buckets = {},
                                      .twins = {}};

}  // namespace

RequestCounts RequestCounts::of(metric::Registry& registry, std::string_view api) {
  auto& family = registry.family(kRequests);
  const auto counter = [&](std::string_view result) {
    return family.counter(std::array{api, result});
  };
  return {counter("scored"), counter("failed")};
}

struct Server::State {
  State(io::Loop& loop, service::ServersOptions options, const Indexer& indexer,
        const request::Parser& parser, metric::Registry& metrics)
      : api{.indexer = indexer,
            .parser = parser,
            .metrics = metrics,
            .http = RequestCounts::of(metrics, "http"),
            .grpc = RequestCounts::of(metrics, "grpc")},
        servers(
            loop, std::move(options), [this] { return http_handler(api); }, grpc_methods(api),
            metrics) {}

  const Api api;
  service::Servers servers;
};

Server::Server(io::Loop& loop, service::ServersOptions options, const Indexer& indexer,
               const request::Parser& parser, metric::Registry& metrics)
    : state_(std::make_unique<State>(loop, std::move(options), indexer, parser, metrics)) {}
Server::~Server() = default;

service::Servers& Server::servers() {
  return state_->servers;
}

}  // namespace llmd::kv_indexer
