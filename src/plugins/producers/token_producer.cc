#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

/// The estimate: prompts count as the parser left them, token ids as such and text as four bytes a
/// token. So there is nothing to compute; the plugin stands for the order of those that read
/// prompts.
class TokenProducer final : public schedule::Producer {
 public:
  void wire(schedule::Wiring& wiring) override { wiring.produces<schedule::TokenizedPrompt>(); }

  Result<schedule::Progress> produce(schedule::RequestContext&) const override {
    return schedule::Progress::kDone;
  }
};

}  // namespace

const plugin::Descriptor& token_producer() {
  static const auto descriptor = plugin::describe<TokenProducer>(
      {.type = "token-producer",
       .kind = "producer",
       .summary = "Provides prompts as tokens: ids where the client gave them, else an estimate of "
                  "four bytes a token.",
       .produces_by_default = {"TokenizedPrompt/token-producer"}});
  return descriptor;
}

}  // namespace llmd::plugins
