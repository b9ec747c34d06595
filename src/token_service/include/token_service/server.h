#pragma once

#include "base/result.h"
#include "io/loop.h"
#include "metric/registry.h"
#include "render/prompt_renderer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Prompts as tokens, for other processes.
namespace llmd::token_service {

struct NamedModel {
  std::string name;
  std::shared_ptr<render::PromptRenderer> renderer;
};

struct ServerOptions {
  std::string host = "0.0.0.0";  // address literal
  uint16_t http_port = 0;        // 0: chosen by the system
  bool grpc_on_tcp = false;
  uint16_t grpc_port = 0;   // 0: chosen by the system
  std::string socket_path;  // gRPC on a unix socket; "": none
  Nanos timeout = std::chrono::seconds(30);
};

/// Serves models' tokens on one loop: over HTTP at vLLM's render endpoints, over gRPC as
/// tokenization.TokenizationService. Threading: the loop's thread; construct and destroy there too,
/// or while the loop does not run. Memory: bodies are bounded by kBodyBytesMax each and
/// kBodiesBytesMax together.
class Server {
 public:
  static constexpr size_t kBodyBytesMax = size_t{32} << 20;
  static constexpr size_t kBodiesBytesMax = size_t{512} << 20;

  /// Requires: at least one model. A request that names none gets the first if it is the only one.
  Server(io::Loop& loop, ServerOptions options, std::vector<NamedModel> models,
         metric::Registry& metrics);
  ~Server();

  /// Errors name the address.
  Status listen();
  uint16_t http_port() const;
  uint16_t grpc_port() const;

  /// Stops accepting, lets open requests finish, and after `grace` aborts the rest. `done` runs
  /// when no connection is left. Call once.
  void stop(Nanos grace, std::move_only_function<void()> done);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::token_service
