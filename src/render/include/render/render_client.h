#pragma once

#include "fleet/address.h"
#include "io/loop_thread.h"
#include "metric/registry.h"
#include "render/prompt_renderer.h"

#include <memory>

namespace llmd::render {

/// Asks vLLM's render endpoints over HTTP, and tokenization.TokenizationService over gRPC where the
/// scheme of a server is "grpc", or "unix": then its name is the path of a socket. A server that
/// cannot be reached is left alone for kPause, so that requests do not wait for it, and warmed up
/// again.
/// Threading: constructed and destroyed while the loop does not run, or on it; ask() and take()
/// from any thread. Memory: at most kQuestionsMax bodies and answers.
class RenderClient {
 public:
  static constexpr size_t kQuestionsMax = 1024;                  // under way or not taken yet
  static constexpr size_t kAnswerBytesMax = size_t{32} << 20;    // over HTTP
  static constexpr size_t kMessageBytesMax = size_t{100} << 20;  // over gRPC, each way
  static constexpr Nanos kPause = std::chrono::seconds(1);
  // A server that does not answer at its warm-up is asked again.
  static constexpr int kWarmUpsMax = 24;
  static constexpr Nanos kWarmUpPause = std::chrono::seconds(5);
  // The same over gRPC: to initialize the model. The n-th pause is n times as long.
  static constexpr int kInitializationsMax = 5;
  static constexpr Nanos kInitializationPause = std::chrono::seconds(1);

  RenderClient(io::Loop& loop, fleet::Resolver resolver, metric::Registry& metrics);
  ~RenderClient();

  /// As those of PromptRenderer.
  void warm_up(const fleet::EndpointSpec& server, WarmUp of);
  Result<uint64_t> ask(const fleet::EndpointSpec& server, Question question,
                       schedule::Signal resume);
  Rendered take(uint64_t ticket);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same with a thread of its own. `index`: of its loop, as metric cell.
class RenderService : public std::enable_shared_from_this<RenderService> {
 public:
  RenderService(size_t index, uint64_t seed, metric::Registry& metrics);
  ~RenderService() { stop(); }

  /// Asks this server. Requires: the service is owned by a shared_ptr, which this shares.
  std::shared_ptr<PromptRenderer> of(fleet::EndpointSpec server);
  /// Nobody is woken any more. Idempotent.
  void stop() { thread_.stop(); }

 private:
  class OfServer;
  io::LoopThread thread_;
  RenderClient client_;
};

}  // namespace llmd::render
