#pragma once

#include "base/clock.h"
#include "metric/registry.h"
#include "render/prompt_renderer.h"

#include <memory>

namespace llmd::render {

/// Turns prompts into tokens with tokenizers of the process's own, on a few threads: a long new
/// prompt takes milliseconds, which would hold up a loop. Work whose time is over when its turn
/// comes is not done.
/// Threading: any. Memory: at most kQuestionsMax questions, kWaitingBytesMax of bodies that wait.
class LocalService {
 public:
  static constexpr size_t kQuestionsMax = 1024;  // under way or not taken yet
  static constexpr size_t kWaitingBytesMax = size_t{256} << 20;

  /// `threads` may be 0: then run_one() does the work.
  LocalService(size_t threads, const Clock& clock, metric::Registry& metrics);
  ~LocalService();

  /// Renders with this model, of which those in use with unchanged files share a tokenizer. May
  /// take seconds. Errors say what is wrong with the files.
  Result<std::shared_ptr<PromptRenderer>> of(const LocalModel& model);
  /// Nobody is woken any more. Idempotent.
  void stop();
  /// Answers the question that has waited longest; false: none waits.
  bool run_one();

 private:
  struct State;
  class OfModel;
  const std::shared_ptr<State> state_;
};

}  // namespace llmd::render
