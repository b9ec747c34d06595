#include "flow/eviction_hooks.h"

#include "kv/block_hash.h"

namespace llmd::flow {

void EvictionHooks::wire(schedule::Wiring& wiring) {
  try_ = wiring.request_slot<Try>();
}

Status EvictionHooks::pre_request(schedule::RequestContext& context) const {
  context.slot(try_) = {
      .running = evictor_->track(context.priority,
                                 context.priority < 0 ? context.eviction() : schedule::Signal()),
      .answering = false};
  return {};
}

void EvictionHooks::on_first_chunk(schedule::RequestContext& context) const {
  context.slot(try_).answering = true;
}

void EvictionHooks::on_end(schedule::RequestContext& context, schedule::EndCause cause,
                           const request::Usage& usage) const {
  auto& [running, answering] = context.slot(try_);
  evictor_->untrack(running);
  if (cause != schedule::EndCause::kEvicted) return;
  // Once the answer has begun the whole prompt has been processed; before, nobody knows how much.
  int64_t prompt = usage.prompt_tokens;
  if (prompt == 0 && answering && context.request)
    for (const auto& each : context.request->prompts) prompt += kv::token_count(each);
  evictor_->count_spent(context.priority, prompt, usage.completion_tokens);
}

}  // namespace llmd::flow
