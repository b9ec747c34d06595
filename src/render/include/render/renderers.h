#pragma once

#include "metric/registry.h"
#include "render/local_service.h"
#include "render/prompt_renderer.h"
#include "render/render_client.h"

#include <memory>
#include <optional>

namespace llmd::render {

/// The renderers of a process. The first who wants one starts the thread that asks servers, or
/// those with tokenizers, which are no loops.
/// Threading: slot() and what it holds: the thread that loads configurations. Lifetime: outlives
/// who uses the slot.
class Renderers {
 public:
  /// `loop`: the index of the loop that asks servers, as metric cell; `threads`: with tokenizers.
  Renderers(size_t loop, size_t threads, metric::Registry& metrics)
      : loop_(loop), threads_(threads), metrics_(metrics) {}

  PromptRendererSlot slot();
  /// Nobody is woken any more.
  void stop();

 private:
  const size_t loop_, threads_;
  metric::Registry& metrics_;
  std::shared_ptr<RenderService> servers_;  // null: nobody has wanted it
  std::optional<LocalService> tokenizers_;  // the same
};

}  // namespace llmd::render
