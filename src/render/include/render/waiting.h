#pragma once

#include "base/result.h"
#include "io/loop.h"
#include "render/prompt_renderer.h"

#include <functional>
#include <memory>

namespace llmd::render {

/// A request that waits for tokens: at most one question at a time. Threading: the loop's.
class Waiting {
 public:
  using Done = std::move_only_function<void(render::Rendered)>;

  /// Calls `done` on the loop with what came of the question, at once or later, unless this is
  /// destroyed or cancelled before.
  void ask(io::Loop& loop, PromptRenderer& renderer, Question question, Done done);
  void cancel() { asked_.reset(); }

 private:
  struct Asked {
    PromptRenderer& renderer;
    Done done;
    uint64_t ticket = 0;
  };
  std::shared_ptr<Asked> asked_;
};

}  // namespace llmd::render
