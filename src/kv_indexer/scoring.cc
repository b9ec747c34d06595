#include "scoring.h"

#include <utility>

namespace llmd::kv_indexer {

void Scoring::of(ScoreRequest request, Done done) {
  done_ = std::move(done);
  if (!request.text) return look_up(request.question, request.tokens);
  auto* const renderer = indexer_.tokens().renderer();
  if (!renderer)
    return std::exchange(done_, {})(
        fail(Code::kBadRequest, "prompts must be token ids: no token-producer is configured"));
  waiting_.ask(loop_, *renderer, std::move(*request.text),
               [this, question = std::move(request.question)](const render::Rendered& prompts) {
                 if (!prompts) return std::exchange(done_, {})(std::unexpected(prompts.error()));
                 look_up(question, *prompts);
               });
}

void Scoring::look_up(const Question& question, std::span<const render::RenderedPrompt> prompts) {
  look_up_ = indexer_.look_up(question, prompts);
  if (!ask_shared()) finish({});
}

bool Scoring::ask_shared() {
  auto* const shared = indexer_.shared();
  if (!shared || look_up_.pods.empty() || !shared->available()) return false;
  kv_shared::Question question{.chains = {}, .pods = look_up_.pods};
  for (const auto& chain : look_up_.chains)
    if (!chain.empty()) question.chains.push_back(chain);
  if (question.chains.empty()) return false;
  ticket_ = std::make_shared<uint64_t>();
  // The answer is taken in a later turn, when the ticket is known.
  const auto ticket =
      shared->ask(std::move(question), [this, &loop = loop_, mine = std::weak_ptr(ticket_)] {
        loop.post([this, mine] {
          const auto asked = mine.lock();
          if (!asked) return;
          const auto more = indexer_.shared()->take(*asked);
          finish(more ? std::span<const kv_shared::Hit>(*more) : std::span<const kv_shared::Hit>());
        });
      });
  if (!ticket) {
    ticket_.reset();
    return false;
  }
  *ticket_ = *ticket;
  timer_.arm(kSharedTimeout, [this] { finish({}); });
  return true;
}

void Scoring::finish(std::span<const kv_shared::Hit> more) {
  ticket_.reset();
  timer_.cancel();
  auto scores = indexer_.score(std::exchange(look_up_, {}), more);
  std::exchange(done_, {})(std::move(scores));
}

void Scoring::cancel() {
  waiting_.cancel();
  ticket_.reset();
  timer_.cancel();
}

}  // namespace llmd::kv_indexer
