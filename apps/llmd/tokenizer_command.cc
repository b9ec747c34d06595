#include "command_line.h"
#include "commands.h"

#include "base/log.h"
#include "base/rng.h"
#include "io/loop.h"
#include "io/signals.h"
#include "render/local_service.h"
#include "text/tokenizer.h"
#include "token_service/server.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace llmd {
namespace {

constexpr Nanos kGrace = std::chrono::seconds(30);

struct TokenizerOptions {
  std::vector<std::string> models;
  std::string host = "0.0.0.0";
  uint16_t http_port = 8082;
  int grpc_port = -1;
  std::string socket = "/tmp/tokenizer/tokenizer-uds.socket";
  size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 64);
  uint64_t cache_bytes = text::Tokenizer::kCacheBytesMax;
};

void add_flags(CLI::App& app, TokenizerOptions& o) {
  app.add_option(
         "--model", o.models,
         "a model's folder, with tokenizer.json; NAME=FOLDER to serve it by name; repeatable")
      ->required()
      ->type_name("[NAME=]FOLDER");
  app.add_option("--host", o.host, "address to listen on")->capture_default_str();
  add_port(app, "--http-port", o.http_port, "port of /v1/…/render, /healthz and /metrics; 0: any")
      ->capture_default_str();
  app.add_option("--grpc-port", o.grpc_port, "port of the gRPC service; 0: any (default: none)")
      ->check(CLI::Range(0, 65'535));
  app.add_option("--socket", o.socket, "unix socket of the gRPC service; '': none")
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that tokenize (default: one per core)")
      ->check(CLI::Range(1, 256));
  app.add_option("--cache-bytes", o.cache_bytes,
                 "memory of a model for tokens of texts seen before")
      ->capture_default_str();
}

/// NAME=FOLDER; without a name, the folder's.
Result<token_service::NamedModel> open(const std::string& flag, uint64_t cache_bytes,
                                       render::LocalService& service) {
  const size_t equals = flag.find('=');
  const std::string folder = equals == flag.npos ? flag : flag.substr(equals + 1);
  std::string name = flag.substr(0, equals);
  if (equals == flag.npos) {
    while (name.size() > 1 && name.ends_with('/')) name.pop_back();
    name.erase(0, name.rfind('/') + 1);
  }
  LLMD_TRY_ASSIGN(auto renderer, service.of({folder, static_cast<size_t>(cache_bytes)}));
  return token_service::NamedModel{std::move(name), std::move(renderer)};
}

Status serve(const TokenizerOptions& options) {
  io::Loop loop(0, random_seed());
  token_service::Server* serving = nullptr;
  const io::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) {
    if (!serving) std::_Exit(1);  // the second signal
    std::exchange(serving, nullptr)->stop(kGrace, [&loop] { loop.stop(); });
  });
  metric::Registry metrics{1};
  render::LocalService tokenizers(options.threads, real_clock(), metrics);
  std::vector<token_service::NamedModel> models;
  for (const auto& flag : options.models) {
    auto model = open(flag, options.cache_bytes, tokenizers);
    if (!model) return fail(std::move(model).error().in("--model"));
    models.push_back(std::move(*model));
  }
  const size_t count = models.size();
  token_service::Server server(loop,
                               {.host = options.host,
                                .http_port = options.http_port,
                                .grpc_on_tcp = options.grpc_port >= 0,
                                .grpc_port = static_cast<uint16_t>(std::max(options.grpc_port, 0)),
                                .socket_path = options.socket},
                               std::move(models), metrics);
  LLMD_TRY(server.listen());
  serving = &server;
  log::info("serving", {{"http", fmt::format("{}:{}", options.host, server.http_port())},
                        {"grpc", server.grpc_port()},
                        {"socket", options.socket},
                        {"models", count}});
  loop.run("tokenizer");
  tokenizers.stop();
  return {};
}

}  // namespace

int run_tokenizer(int argc, char** argv) {
  TokenizerOptions options;
  CLI::App app("Serves the tokens of prompts over HTTP, gRPC and a unix socket.", "llmd tokenizer");
  add_flags(app, options);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  signal(SIGPIPE, SIG_IGN);
  const auto outcome = serve(options);
  if (outcome) return 0;
  std::fprintf(stderr, "llmd tokenizer: %s\n", outcome.error().message.c_str());
  return 2;
}

}  // namespace llmd
