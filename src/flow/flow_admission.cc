#include "flow/flow_admission.h"

#include "base/check.h"
#include "base/text.h"
#include "kv/block_hash.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace llmd::flow {
namespace {

using schedule::Progress;
using schedule::RequestContext;

constexpr int64_t kNanosPerMilli = 1'000'000;

/// How often a request is let in when scheduling finds no room for it, and how long it pauses.
constexpr uint8_t kTimesMost = 3;
constexpr Nanos kPause = std::chrono::milliseconds(10);

int64_t prompt_tokens(const RequestContext& context) {
  int64_t tokens = 0;
  if (context.request)
    for (const auto& prompt : context.request->prompts) tokens += kv::token_count(prompt);
  return tokens;
}

/// Prompt and expected answer: one and a half times the prompt, unless the client says less. A body
/// that is no prompt counts a token for every four bytes.
int64_t work_of(const RequestContext& context, int64_t prompt) {
  constexpr int64_t kBytesPerToken = 4;
  if (prompt == 0) prompt = 1 + static_cast<int64_t>(context.request_bytes) / kBytesPerToken;
  int64_t answer = prompt + prompt / 2;
  if (context.request && context.request->max_output_tokens)
    answer = std::min(answer, *context.request->max_output_tokens);
  return prompt + answer;
}

/// A number of milliseconds as a header has it, in nanoseconds; nothing: there is none that can be
/// told (spec 03 §6.1).
std::optional<int64_t> millis_of(std::string_view text) {
  const auto millis = parse_int(trim(text));
  if (!millis || *millis < 0 || *millis > kNever / kNanosPerMilli) return std::nullopt;
  return *millis * kNanosPerMilli;
}

/// When the client wants its first token.
int64_t deadline_of(const RequestContext& context) {
  const auto text = context.headers.find("x-llm-d-slo-ttft-ms");
  const auto after = millis_of(text ? *text : context.headers.get("x-slo-ttft-ms"));
  const int64_t from = context.received.time_since_epoch().count();
  return after && *after < kNever - from ? from + *after : kNever;
}

class FlowAdmission final : public schedule::Admission {
 public:
  FlowAdmission(Controller& controller, Settings settings)
      : controller_(controller), settings_(std::move(settings)) {}

  void start(const std::shared_ptr<const void>& self) const override {
    Settings settings = settings_;
    settings.owner = self;
    controller_.configure(std::move(settings));
  }
  void expect(std::span<const int32_t> priorities) const override {
    controller_.provision(priorities);
  }
  void made_room() const override { controller_.made_room(); }
  std::string dump_state() const override { return controller_.dump_state(); }

  Result<Progress> admit(
      RequestContext& context,
      const std::function<std::span<const schedule::Candidate>()>&) const override {
    if (context.admitted.waiter) return conclude(context);
    const TimePoint now = context.clock.now();
    if (context.admitted.times == 0) context.admitted.since = now;
    controller_.probe().arrive(context, now);
    const int64_t prompt = prompt_tokens(context);
    const auto reserved = controller_.pass(context.priority, *settings_.detector, prompt, now);
    if (!reserved) return wait(context, prompt);
    context.admitted.reserved = *reserved;
    count_in(context);
    const Nanos taken = context.clock.now() - now;
    controller_.probe().end(context, Outcome::kDispatched, taken, taken);
    return Progress::kDone;
  }

  void settle(RequestContext& context) const override {
    if (context.admitted.reserved > 0)
      controller_.gate().settle(std::exchange(context.admitted.reserved, 0));
  }

  /// After a pause, so that what is there can change. Without any endpoint as often as it takes:
  /// the pool has just changed, and the gate or the request's loop has yet to hear of it.
  bool wait_again(RequestContext& context) const override {
    if (context.admitted.times >= kTimesMost && !context.candidates.empty()) return false;
    settle(context);
    context.suspend_for(kPause * context.admitted.times);
    return true;
  }

  void leave(RequestContext& context, schedule::EndCause cause) const override {
    auto* waiter = static_cast<Waiter*>(std::exchange(context.admitted.waiter, nullptr));
    if (!waiter) return;
    const TimePoint enqueued = waiter->enqueued;
    if (context.notes &&
        (waiter->word.load(std::memory_order_acquire) & (Waiter::kNoted | Waiter::kFinished)))
      context.notes->wait = waiter->note;
    Outcome outcome = cause == schedule::EndCause::kClientDisconnect
                          ? Outcome::kEvictedContextCancelled
                          : Outcome::kEvictedOther;
    if (!controller_.abandon(*waiter)) {
      outcome = waiter->outcome;
      controller_.gate().settle(waiter->reserved);
      delete waiter;
    }
    controller_.probe().wait(context, -1);
    const Nanos waited = context.clock.now() - enqueued;
    controller_.probe().end(context, outcome, waited, waited);
  }

 private:
  static void count_in(RequestContext& context) {
    context.admitted.times = std::min<uint8_t>(context.admitted.times + 1, kTimesMost);
  }

  Result<Progress> wait(RequestContext& context, int64_t prompt) const {
    auto waiter = std::make_unique<Waiter>();
    waiter->fairness_id = context.fairness_id;
    waiter->priority = context.priority;
    waiter->bytes = static_cast<int64_t>(context.request_bytes);
    waiter->tokens = work_of(context, prompt);
    waiter->prompt_tokens = prompt;
    waiter->received = context.received;
    waiter->enqueued = context.admitted.since;
    waiter->ttl = ttl_of(context);
    waiter->deadline = deadline_of(context);
    waiter->resume = context.suspend();
    controller_.probe().wait(context, 1);
    context.admitted.waiter = waiter.get();
    controller_.hand_over(*waiter.release());
    return Progress::kSuspended;
  }

  Nanos ttl_of(const RequestContext& context) const {
    if (settings_.ttl_header.empty()) return settings_.ttl;
    const auto own = millis_of(context.headers.get(settings_.ttl_header));
    if (!own || *own == 0) return settings_.ttl;
    return settings_.ttl > Nanos(0) ? std::min(Nanos(*own), settings_.ttl) : Nanos(*own);
  }

  /// Woken: its wait is over.
  Result<Progress> conclude(RequestContext& context) const {
    auto* const raw = static_cast<Waiter*>(context.admitted.waiter);
    CHECK(raw->word.load(std::memory_order_acquire) & Waiter::kFinished);
    const std::unique_ptr<Waiter> waiter(raw);
    context.admitted.waiter = nullptr;
    context.admitted.reserved = waiter->reserved;
    controller_.probe().wait(context, -1);
    const Nanos waited = context.clock.now() - waiter->enqueued;
    const Nanos enqueuing =
        waiter->enqueuing_s < 0
            ? waited
            : std::chrono::duration_cast<Nanos>(std::chrono::duration<float>(waiter->enqueuing_s));
    controller_.probe().end(context, waiter->outcome, waited, enqueuing);
    if (context.notes) context.notes->wait = waiter->note;
    if (waiter->outcome == Outcome::kDispatched) {
      count_in(context);
      return Progress::kDone;
    }
    Error error = refusal(waiter->outcome, controller_.gate().pool_empty());
    if (waiter->retry_after_s > 0)
      error.retry_after = static_cast<int>(std::ceil(waiter->retry_after_s));
    return fail(std::move(error));
  }

  Controller& controller_;
  const Settings settings_;
};

}  // namespace

std::unique_ptr<schedule::Admission> flow_admission(Controller& controller, Settings settings) {
  return std::make_unique<FlowAdmission>(controller, std::move(settings));
}

}  // namespace llmd::flow
