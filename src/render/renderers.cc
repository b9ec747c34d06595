#include "render/renderers.h"

#include "base/rng.h"

#include <utility>

namespace llmd::render {

PromptRendererSlot Renderers::slot() {
  return {.of_server =
              [this](fleet::EndpointSpec server) {
                if (!servers_)
                  servers_ = std::make_shared<RenderService>(loop_, random_seed(), metrics_);
                return servers_->of(std::move(server));
              },
          .of_model =
              [this](const LocalModel& model) {
                if (!tokenizers_) tokenizers_.emplace(threads_, real_clock(), metrics_);
                return tokenizers_->of(model);
              }};
}

void Renderers::stop() {
  if (servers_) servers_->stop();
  if (tokenizers_) tokenizers_->stop();
}

}  // namespace llmd::render
