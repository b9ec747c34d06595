#include "command_line.h"
#include "commands.h"
#include "service_command.h"

#include "render/local_service.h"
#include "text/tokenizer.h"
#include "token_service/server.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace llmd {
namespace {

struct TokenizerOptions {
  std::vector<std::string> models;
  service::ServersOptions servers{.http_port = 8082,
                                  .socket_path = "/tmp/tokenizer/tokenizer-uds.socket"};
  size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 64);
  uint64_t cache_bytes = text::Tokenizer::kCacheBytesMax;
};

void add_flags(CLI::App& app, TokenizerOptions& o) {
  app.add_option(
         "--model", o.models,
         "a model's folder, with tokenizer.json; NAME=FOLDER to serve it by name; repeatable")
      ->required()
      ->type_name("[NAME=]FOLDER");
  add_service_flags(app, o.servers, "/v1/…/render");
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
  ServiceLoop service;
  metric::Registry metrics{1};
  render::LocalService tokenizers(options.threads, real_clock(), metrics);
  std::vector<token_service::NamedModel> models;
  for (const auto& flag : options.models) {
    auto model = open(flag, options.cache_bytes, tokenizers);
    if (!model) return fail(std::move(model).error().in("--model"));
    if (std::ranges::find(models, model->name, &token_service::NamedModel::name) != models.end())
      return fail(Code::kBadRequest, "--model: '" + model->name + "' is given twice");
    models.push_back(std::move(*model));
  }
  token_service::Server server(service.loop(), options.servers, std::move(models), metrics);
  LLMD_TRY(service.serve(server.servers(), options.servers));
  tokenizers.stop();
  return {};
}

}  // namespace

int run_tokenizer(int argc, char** argv) {
  TokenizerOptions options;
  CLI::App app("Serves the tokens of prompts over HTTP, gRPC and a unix socket.", "llmd tokenizer");
  add_flags(app, options);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  return exit_code("tokenizer", serve(options));
}

}  // namespace llmd
