#pragma once

#include "fleet/address.h"
#include "io/loop_thread.h"
#include "metric/registry.h"
#include "render/prompt_renderer.h"

#include <memory>

namespace llmd::render {

/// Asks vLLM's render endpoints over HTTP. A server that cannot be reached is left alone for
/// kPause, so that requests do not wait for it.
/// Threading: constructed and destroyed while the loop does not run, or on it; ask() and take()
/// from any thread. Memory: at most kQuestionsMax bodies and answers.
class RenderClient final : public PromptRenderer {
 public:
  static constexpr size_t kQuestionsMax = 1024;  // under way or not taken yet
  static constexpr size_t kAnswerBytesMax = size_t{32} << 20;
  static constexpr Nanos kPause = std::chrono::seconds(1);

  RenderClient(io::Loop& loop, fleet::Resolver resolver, metric::Registry& metrics);
  ~RenderClient() override;

  Result<uint64_t> ask(Question question, schedule::Signal resume) override;
  Result<std::vector<RenderedPrompt>> take(uint64_t ticket) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same with a thread of its own. `index`: of its loop, as metric cell.
class RenderService final : public PromptRenderer {
 public:
  RenderService(size_t index, uint64_t seed, metric::Registry& metrics);
  ~RenderService() override { stop(); }

  /// Nobody is woken any more. Idempotent.
  void stop() { thread_.stop(); }

  Result<uint64_t> ask(Question question, schedule::Signal resume) override {
    return client_.ask(std::move(question), std::move(resume));
  }
  Result<std::vector<RenderedPrompt>> take(uint64_t ticket) override {
    return client_.take(ticket);
  }

 private:
  io::LoopThread thread_;
  RenderClient client_;
};

}  // namespace llmd::render
