#include "sim/engine.h"

#include "base/check.h"

#include <algorithm>
#include <utility>

namespace llmd::sim {

Engine::Engine(const EngineConfig& config, CacheListener* listener)
    : config_(config), token_bounds_(one_two_five(config.max_model_len)), counters_(token_bounds_) {
  if (config.prefix_cache)
    cache_ = std::make_unique<PrefixCache>(config.kv_cache_blocks, config.block_tokens, listener);
}

bool Engine::accepts(size_t n) const {
  const size_t free_slots =
      config_.max_num_seqs - std::min(config_.max_num_seqs, counters_.running);
  return counters_.waiting + n <= free_slots + config_.max_waiting;
}

void Engine::count_rejected() {
  ++counters_.rejected_queue_full;
  ++revision_;
}

void Engine::submit(Sequence& s, TimePoint now) {
  CHECK(s.state == Sequence::State::kIdle && accepts(1));
  ++revision_;
  s.arrived = now;
  s.order_ = ++submitted_;
  s.state = Sequence::State::kWaiting;
  s.prev_ = waiting_tail_;
  s.next_ = nullptr;
  (waiting_tail_ ? waiting_tail_->next_ : waiting_head_) = &s;
  waiting_tail_ = &s;
  ++counters_.waiting;
  if (s.adapter >= 0) ++adapters_[s.adapter].waiting;
  start_waiting(now);
}

void Engine::abort(Sequence& s, TimePoint now) {
  if (s.state == Sequence::State::kIdle || s.ended()) return;
  ++revision_;
  ++counters_.finished[static_cast<size_t>(FinishReason::kAbort)];
  if (s.state == Sequence::State::kWaiting) {
    unlink_waiting(s);
    s.state = Sequence::State::kDone;
    return;
  }
  heap_remove(s);
  leave(s, now);
}

std::optional<TimePoint> Engine::next_due() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front()->due_;
}

void Engine::advance(TimePoint now) {
  while (!heap_.empty() && heap_.front()->due_ <= now) run_top(now);
}

void Engine::run_top(TimePoint now) {
  ++revision_;
  Sequence& s = *heap_.front();
  if (s.emitted == s.output_tokens) return finish(s, s.due_);
  // A sequence that nobody watches token by token runs on while it is due: other sequences cannot
  // tell, except that a later deadline is then served before an earlier one of the same batch.
  do {
    emit(s);
    if (s.emitted == s.output_tokens) return finish(s, s.due_);
    const double factor = load_factor(config_.latency, counters_.running, config_.max_num_seqs);
    const Nanos gap = inter_token_time(config_.latency, factor, s.draws);
    counters_.inter_token_latency.observe(seconds(gap));
    s.due_ += gap;
  } while (!s.each_token && s.due_ <= now);
  heap_fix(s.heap_at_);
  if (s.each_token) s.owner->on_progress(s);
}

void Engine::emit(Sequence& s) {
  if (s.emitted++ == 0) {
    s.state = Sequence::State::kDecode;
    s.first_token = s.due_;
    counters_.prompt_tokens += s.prompt.size();
    counters_.prompt_tokens_cached += s.cached_tokens;
    if (s.remote_prefill) counters_.prompt_tokens_transferred += s.prompt.size() - s.cached_tokens;
    counters_.time_to_first_token.observe(seconds(s.due_ - s.arrived));
    counters_.prefill_time.observe(seconds(s.due_ - s.started));
  }
  ++counters_.generation_tokens;
}

void Engine::finish(Sequence& s, TimePoint at) {
  const bool failed = s.state == Sequence::State::kNoCapacity;
  const FinishReason reason = failed ? FinishReason::kError : s.finish;
  ++counters_.finished[static_cast<size_t>(reason)];
  if (s.emitted > 0) {
    const double decode = seconds(at - s.first_token);
    counters_.e2e_latency.observe(seconds(at - s.arrived));
    counters_.inference_time.observe(seconds(at - s.started));
    counters_.decode_time.observe(decode);
    counters_.time_per_output_token.observe(s.emitted > 1 ? decode / (s.emitted - 1) : 0);
    counters_.request_prompt_tokens.observe(static_cast<double>(s.prompt.size()));
    counters_.request_generation_tokens.observe(s.emitted);
    counters_.request_max_generation_tokens.observe(s.emitted);
    counters_.request_params_n.observe(s.choices);
    if (s.max_tokens) counters_.request_params_max_tokens.observe(*s.max_tokens);
    const size_t computed = s.remote_prefill ? 0 : s.prompt.size() - s.cached_tokens;
    counters_.prefill_kv_computed_tokens.observe(static_cast<double>(computed));
  }
  heap_remove(s);
  leave(s, at);
  if (failed) s.state = Sequence::State::kNoCapacity;
  s.owner->on_progress(s);
}

/// Gives back what a running sequence holds and lets waiting ones start.
void Engine::leave(Sequence& s, TimePoint at) {
  if (s.holds_blocks_) cache_->release(s.keys_);
  s.holds_blocks_ = false;
  --counters_.running;
  if (s.adapter >= 0) --adapters_[s.adapter].running;
  s.state = Sequence::State::kDone;
  start_waiting(at);
}

void Engine::start_waiting(TimePoint now) {
  while (counters_.running < config_.max_num_seqs) {
    Sequence* s = pick_waiting();
    if (!s) return;
    unlink_waiting(*s);
    start(*s, now);
  }
}

/// The first sequence whose adapter is resident; failing that, the first whose adapter can be made
/// so.
Sequence* Engine::pick_waiting() {
  for (Sequence* s = waiting_head_; s; s = s->next_)
    if (s->adapter < 0 || adapters_[s->adapter].resident) return s;
  for (Sequence* s = waiting_head_; s; s = s->next_)
    if (make_resident(s->adapter)) return s;
  return nullptr;
}

bool Engine::make_resident(int32_t adapter) {
  uint32_t resident = 0;
  Adapter* idle = nullptr;
  for (Adapter& a : adapters_) {
    resident += a.resident;
    if (a.resident && a.running == 0 && !idle) idle = &a;
  }
  if (resident >= config_.max_loras) {
    if (!idle) return false;
    idle->resident = false;
    if (cache_) cache_->set_resident(static_cast<uint32_t>(idle - adapters_.data()) + 1, false);
  }
  adapters_[adapter].resident = true;
  if (cache_) cache_->set_resident(static_cast<uint32_t>(adapter) + 1, true);
  return true;
}

void Engine::start(Sequence& s, TimePoint now) {
  ++counters_.running;
  if (s.adapter >= 0) ++adapters_[s.adapter].running;
  s.state = Sequence::State::kPrefill;
  s.started = s.due_ = now;
  counters_.queue_time.observe(seconds(now - s.arrived));
  if (cache_) {
    const bool base = s.adapter < 0;
    s.keys_.clear();
    cache_->block_keys(s.prompt, base ? config_.model : adapters_[s.adapter].name, s.keys_,
                       s.cache_salt);
    const auto hit =
        cache_->acquire(s.keys_, s.prompt, static_cast<uint32_t>(s.adapter + 1), s.cache_salt);
    if (!hit.stored) {
      s.state = Sequence::State::kNoCapacity;
      s.output_tokens = 0;
      return heap_push(s);
    }
    s.holds_blocks_ = true;
    // The last token is always computed: its logits choose the first generated one.
    const size_t reusable = s.prompt.empty() ? 0 : (s.prompt.size() - 1) / config_.block_tokens;
    s.cached_tokens =
        static_cast<uint32_t>(std::min<size_t>(hit.cached_blocks, reusable) * config_.block_tokens);
    counters_.prefix_cache_queries += s.prompt.size();
    counters_.prefix_cache_hits += s.cached_tokens;
    const double rate = s.prompt.empty() ? 0 : double(s.cached_tokens) / double(s.prompt.size());
    if (rate < s.cache_hit_threshold) s.force_cache_threshold = true;
  }
  if (s.force_cache_threshold) {
    s.finish = FinishReason::kCacheThreshold;
    s.output_tokens = 0;
    return heap_push(s);
  }
  const auto prompt = static_cast<uint32_t>(s.prompt.size());
  const double factor = load_factor(config_.latency, counters_.running, config_.max_num_seqs);
  s.due_ += s.remote_prefill
                ? transfer_time(config_.latency, prompt, s.draws)
                : prefill_time(config_.latency, factor, prompt, s.cached_tokens, s.draws);
  heap_push(s);
}

bool Engine::reset_prefix_cache() {
  ++revision_;
  return !cache_ || cache_->reset();
}

int32_t Engine::find_adapter(std::string_view name) const {
  for (size_t i = 0; i < adapters_.size(); ++i)
    if (adapters_[i].loaded && adapters_[i].name == name) return static_cast<int32_t>(i);
  return -1;
}

void Engine::load_adapter(std::string name, std::string path) {
  ++revision_;
  for (Adapter& a : adapters_) {
    if (a.name != name) continue;
    a.path = std::move(path);
    a.loaded = true;
    return;
  }
  adapters_.push_back({std::move(name), std::move(path)});
}

bool Engine::unload_adapter(std::string_view name) {
  const int32_t at = find_adapter(name);
  if (at < 0) return false;
  adapters_[at].loaded = false;
  ++revision_;
  return true;
}

void Engine::unlink_waiting(Sequence& s) {
  (s.prev_ ? s.prev_->next_ : waiting_head_) = s.next_;
  (s.next_ ? s.next_->prev_ : waiting_tail_) = s.prev_;
  s.prev_ = s.next_ = nullptr;
  --counters_.waiting;
  if (s.adapter >= 0) --adapters_[s.adapter].waiting;
}

bool Engine::before(const Sequence& a, const Sequence& b) {
  return a.due_ != b.due_ ? a.due_ < b.due_ : a.order_ < b.order_;
}

void Engine::heap_push(Sequence& s) {
  s.heap_at_ = heap_.size();
  heap_.push_back(&s);
  heap_fix(s.heap_at_);
}

void Engine::heap_remove(Sequence& s) {
  const size_t at = std::exchange(s.heap_at_, SIZE_MAX);
  CHECK(at < heap_.size() && heap_[at] == &s);
  Sequence* last = heap_.back();
  heap_.pop_back();
  if (last == &s) return;
  heap_[at] = last;
  last->heap_at_ = at;
  heap_fix(at);
}

/// Restores the order around position `at`, whose element may have moved either way.
void Engine::heap_fix(size_t at) {
  Sequence* s = heap_[at];
  while (at > 0 && before(*s, *heap_[(at - 1) / 2])) {
    heap_[at] = heap_[(at - 1) / 2];
    heap_[at]->heap_at_ = at;
    at = (at - 1) / 2;
  }
  for (size_t child; (child = 2 * at + 1) < heap_.size(); at = child) {
    if (child + 1 < heap_.size() && before(*heap_[child + 1], *heap_[child])) ++child;
    if (!before(*heap_[child], *s)) break;
    heap_[at] = heap_[child];
    heap_[at]->heap_at_ = at;
  }
  heap_[at] = s;
  s->heap_at_ = at;
}

}  // namespace llmd::sim
