#pragma once

#include "base/result.h"
#include "io/loop.h"
#include "metric/registry.h"
#include "render/prompt_renderer.h"
#include "service/servers.h"

#include <memory>
#include <string>
#include <vector>

/// Prompts as tokens, for other processes.
namespace llmd::token_service {

struct NamedModel {
  std::string name;
  std::shared_ptr<render::PromptRenderer> renderer;
};

/// Serves models' tokens on one loop: over HTTP at vLLM's render endpoints, over gRPC as
/// tokenization.TokenizationService. Threading: the loop's thread; construct and destroy there too,
/// or while the loop does not run.
class Server {
 public:
  static constexpr Nanos kTimeout = std::chrono::seconds(30);  // of a request

  /// Requires: at least one model. A request that names none gets the first if it is the only one.
  Server(io::Loop& loop, service::ServersOptions options, std::vector<NamedModel> models,
         metric::Registry& metrics);
  ~Server();

  service::Servers& servers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::token_service
