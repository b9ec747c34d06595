#include "command_line.h"
#include "commands.h"
#include "endpoint_flags.h"
#include "service_command.h"

#include "config/document.h"
#include "fleet/discovery.h"
#include "fleet/fleet.h"
#include "kv_indexer/config.h"
#include "kv_indexer/server.h"
#include "metric/process.h"
#include "plugin/state_store.h"
#include "render/renderers.h"
#include "request/parsers.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

namespace llmd {
namespace {

constexpr size_t kTokenizerThreadsMax = 64;

struct IndexerOptions {
  std::string config_file;
  EndpointFlags endpoints;
  service::ServersOptions servers{.http_port = 8080, .grpc_on_tcp = true, .grpc_port = 50051};
};

Result<kv_indexer::IndexerConfig> read_config(const std::string& file) {
  std::string text = "{}";
  if (!file.empty()) {
    LLMD_TRY_ASSIGN(text, config::read_document(file));
  }
  return kv_indexer::read_config(text, file);
}

Status serve(const IndexerOptions& options) {
  ServiceLoop service;
  LLMD_TRY_ASSIGN(auto config, read_config(options.config_file));
  metric::Registry metrics{2};
  const auto process_metrics = metric::collect_process(metrics);
  plugin::StateStore state;
  const plugin::Context context{
      .name = "kv-indexer", .state = state, .metrics = metrics, .clock = real_clock()};
  LLMD_TRY_ASSIGN(const auto parser, request::openai_parser().make(context, nullptr));

  const size_t threads =
      std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kTokenizerThreadsMax);
  render::Renderers renderers(1, threads, metrics);
  render::TokenSource tokens;
  if (config.tokens) {
    auto made = render::TokenSource::of(std::move(*config.tokens), renderers.slot());
    if (!made) return fail(std::move(made).error().in(options.config_file));
    tokens = std::move(*made);
  }
  fleet::Fleet fleet;
  const auto cache = std::make_shared<kv_precise::PreciseCache>(
      config.index, context, std::weak_ptr<kv_precise::PreciseCache>());
  const auto listening = fleet.listen(cache);
  LLMD_TRY_ASSIGN(auto found, discovery_of(options.endpoints, metrics));
  fleet::DiscoveryThread discovery(std::move(found));
  LLMD_TRY(discovery.start(fleet));

  const kv_indexer::Indexer indexer(cache, fleet, std::move(tokens));
  kv_indexer::Server server(service.loop(), options.servers, indexer,
                            dynamic_cast<const request::Parser&>(*parser.plugin), metrics);
  LLMD_TRY(service.serve(server.servers(), options.servers));
  renderers.stop();
  return {};
}

}  // namespace

int run_kv_indexer(int argc, char** argv) {
  IndexerOptions options;
  CLI::App app("Scores servers by how much of a prompt they hold, over HTTP and gRPC.",
               "llmd kv-indexer");
  app.add_option("--config-file", options.config_file,
                 "parameters of precise-prefix-cache-producer and token-producer, YAML or JSON");
  add_endpoint_flags(app, options.endpoints);
  add_service_flags(app, options.servers, "/score_completions, /v1/score");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  return exit_code("kv-indexer", serve(options));
}

}  // namespace llmd
