#pragma once

#include "fetch/server.h"
#include "io/loop.h"
#include "render/prompt_renderer.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::render {

/// A server, and when to try it again.
struct RenderServer {
  RenderServer(const fleet::EndpointSpec& spec, const fleet::Resolver& resolver,
               std::shared_ptr<tls::Context> tls)
      : address(spec.scheme == "unix" ? fetch::Server(spec.name)
                                      : fetch::Server(spec, resolver, std::move(tls))),
        grpc(spec.scheme == "unix" || spec.scheme == "grpc") {}

  fetch::Server address;
  const bool grpc;
  std::atomic<int64_t> paused_until{0};
};

/// A question on its way to a server, or a place for one. Threading: the loop's.
class ServerCall {
 public:
  /// What came of it, and whether there is a server.
  using Done = std::move_only_function<void(Rendered, bool reached)>;

  virtual ~ServerCall() = default;
  virtual bool active() const = 0;
  /// Requires: not active. Calls `done` once, perhaps at once.
  virtual void ask(RenderServer& server, Question question, Done done) = 0;
};

/// What is done before the first questions. Nobody waits for it, and it is not counted. Threading:
/// the loop's.
class Warmer {
 public:
  virtual ~Warmer() = default;
  bool done() const { return done_; }

 protected:
  bool done_ = false;
};

/// A chat to begin with.
std::string warm_up_body(std::string_view model, bool with_image);

/// How servers of one kind are asked.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual std::unique_ptr<ServerCall> call() = 0;
  virtual std::unique_ptr<Warmer> warm_up(RenderServer& server, WarmUp what) = 0;
};
/// vLLM's render endpoints.
std::unique_ptr<Protocol> http_protocol(io::Loop& loop);
/// tokenization.TokenizationService.
std::unique_ptr<Protocol> grpc_protocol(io::Loop& loop);

}  // namespace llmd::render
