#include "route/session.h"

#include "candidate_search.h"
#include "decision_keeper.h"
#include "head_values.h"
#include "model_choice.h"
#include "placement.h"
#include "producer_run.h"
#include "request_log.h"
#include "request_probe.h"
#include "request_trace.h"
#include "response_meter.h"
#include "session_states.h"
#include "suspension.h"

#include "route/director.h"
#include "schedule/moved_hook.h"
#include "schedule/pipeline.h"
#include "schedule/stopwatch.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmd::route {

using schedule::Candidate;
using schedule::EndCause;
using schedule::Progress;
using schedule::RequestContext;
using schedule::Stage;

struct Session::Impl final : Suspendable {
  LoopDirector& loop;
  Director& director;
  SessionSink& sink;
  const Clock& clock;
  State state = State::kIdle;

  std::unique_ptr<Arena> arena;
  schedule::PipelinePtr pipeline;
  std::optional<RequestContext> context;
  const request::Parser* parser = nullptr;
  request::BodyScan* scan = nullptr;
  request::RequestView view;

  const DecisionKeeper decisions;
  Suspension suspension;
  ProducerRun producers;

  RequestSeries* series = nullptr;
  bool committed = false;
  bool running = false;
  int response_status = 0;
  Attempts attempts;
  TimePoint decided{};
  ResponseMeter meter;

  Impl(LoopDirector& l, SessionSink& s)
      : loop(l),
        director(l.director_),
        sink(s),
        clock(l.director_.clock_),
        decisions(l.history_.get()),
        suspension(l.host_, l.director_.probe_->stale_resumes, *this),
        producers(l.director_.probe_->producers_failed),
        placement(l.director_.ejector_) {}

  ~Impl() { abort(EndCause::kClientDisconnect); }

  // --- state machine

  bool accept(Event event) const { return route::accept(state, event); }

  void begin(std::string_view target, HeaderView headers) {
    rewrite.reset();
    arena = loop.take_arena();
    pipeline = loop.pipeline_;
    context.emplace(*arena, loop.host_.rng, clock);
    auto& c = *context;
    c.serial = ++loop.serial_ * kLoopStride + loop.host_.index;
    c.received = clock.now();
    made_request_id = !read_head(c, target, headers, loop.objects_.get());
    c.make_resume = [this] { return suspension.resume(); };
    c.make_eviction = [this] { return suspension.eviction(); };
    c.wake_in = [this](Nanos delay) { suspension.resume_after(delay); };
    trace.begin(director.tracer_, c, loop.host_.rng, std::exchange(carrier, {}));
    ++loop.active_;
    state = State::kReceiving;
  }

  static constexpr uint64_t kLoopStride = 256;
  bool made_request_id = false;
  RequestTrace trace;
  std::string_view carrier;  // trace context beside the next head

  /// Ends the request: the session is ready for the next one. Returns the arena, in which views of
  /// the request may still be needed.
  std::unique_ptr<Arena> release() {
    if (state == State::kWaiting) loop.waiting_.erase(place);
    trace.end(*context);
    state = State::kIdle;
    suspension.end();
    --loop.active_;
    context.reset();
    pipeline.reset();
    parser = nullptr;
    scan = nullptr;
    search = {};
    placement.choose({});
    view = {};
    series = nullptr;
    committed = running = made_request_id = waited_again = false;
    attempts.reset();
    response_status = 0;
    decided = {};
    meter = {};
    return std::move(arena);
  }

  void finish() { loop.give_back(release()); }

  Session* owner = nullptr;

  // --- request side

  CandidateSearch search;

  void route_without_body() {
    placement.choose(search.any(*context, loop.snapshot_, attempts));
    if (!placement.endpoint())
      return refuse({Code::kInternal, "no pods available in datastore", {}});
    decided = clock.now();
    send();
  }

  void choose_parser() {
    parser = pipeline ? pipeline->parsers.resolve(context->path) : nullptr;
    if (parser)
      scan = parser->scan_request({context->path, context->headers.get("content-type")}, *arena);
  }

  void parse_and_admit(std::string_view whole) {
    auto& c = *context;
    RequestTrace::orchestrate(c);
    decisions.begin_try(c);
    c.request_bytes = whole.size();
    c.body = whole;
    if (!pipeline) return refuse({Code::kServiceUnavailable, "no configuration is loaded", {}});
    if (!parser)
      return refuse({Code::kBadRequest,
                     fmt::format("no parser registered matching path suffix for: {}", c.path),
                     {}});
    auto parsed = scan->finish(whole);
    if (!parsed) return refuse(std::move(parsed).error());
    view = *parsed;
    c.request = &view;
    choose_model(whole);
    if (view.rewritable && c.target_model.empty())
      return refuse({Code::kBadRequest, "model not found in request body", {}});
    if (auto ok = schedule::begin_try(*context, *pipeline); !ok)
      return refuse(std::move(ok).error());
    decisions.end_stage(c, Stage::kParse);
    admit();
  }

  ModelRewrite rewrite;

  void choose_model(std::string_view body) {
    auto& c = *context;
    const ModelChoice choice =
        route::choose_model(loop.objects_.get(), c.headers, view.model, c.rng);
    c.target_model = arena->copy(choice.model);
    if (!choice.rewrite.empty())
      director.probe_->rewrites(choice.rewrite, view.model, c.target_model).add();
    if (view.rewritable && c.target_model != view.model && !c.target_model.empty())
      rewrite.ask_for(c.target_model, view, body, *arena);
  }

  void admit() {
    auto& c = *context;
    auto admitted = pipeline->admission
                        ? pipeline->admission->admit(
                              c, [&] { return search.locate(c, loop.snapshot_, attempts); })
                        : Progress::kDone;
    if (!admitted || *admitted == Progress::kDone) decisions.end_stage(c, Stage::kAdmit);
    if (!admitted) return refuse(std::move(admitted).error());
    if (*admitted == Progress::kSuspended) {
      if (state != State::kWaiting) begin_wait();
      if (loop.draining_) return refuse_draining("request rejected pre-queue");
      if (const Nanos limit = pipeline->admission->deadline(); limit != Nanos::max())
        suspension.wake_after(limit);
      return;
    }
    if (state == State::kWaiting) {
      loop.waiting_.erase(place);
      if (c.trace) c.trace->close();
    }
    if (waited_again) return schedule_again();
    state = State::kProducing;
    screen();
  }

  std::list<Session*>::iterator place;  // among those that wait

  void begin_wait() {
    place = loop.waiting_.insert(loop.waiting_.end(), owner);
    state = State::kWaiting;
    if (context->trace) context->trace->open("wait_for_admission", trace::Scope::kRequestControl);
  }

  void refuse_draining(std::string_view where) {
    refuse({Code::kServiceUnavailable,
            fmt::format("flow controller shutting down: {}: flow controller is not running", where),
            "rejected-shutting-down"});
  }

  void screen() {
    auto& c = *context;
    search.locate(c, loop.snapshot_, attempts);
    if (c.candidates.empty()) {
      if (loop.snapshot_->endpoints.empty() && wait_again()) return;
      return refuse({Code::kServiceUnavailable,
                     "failed to find endpoint candidates for serving the request",
                     "rejected-no-endpoints"});
    }
    if (auto ok = schedule::run_screeners(c, *pipeline); !ok) return refuse(std::move(ok).error());
    decisions.end_stage(c, Stage::kLocate);
    producers.begin(pipeline->producers);
    produce();
  }

  void produce() {
    if (producers.go_on(*context) == Progress::kSuspended)
      return suspension.wake_after(producers.deadline());
    decisions.end_stage(*context, Stage::kProduce);
    decide();
  }

  void decide() {
    auto& c = *context;
    if (!attempts.any())
      if (auto ok = schedule::run_admitters(c, *pipeline); !ok)
        return refuse(std::move(ok).error());
    const TimePoint begin = clock.now();
    auto scheduled = schedule::run_scheduler(c, *pipeline);
    decided = clock.now();
    director.probe_->scheduling.observe(seconds(decided - begin));
    decisions.end_stage(c, Stage::kSchedule);
    if (!scheduled) {
      const bool saturated = scheduled.error().drop_reason == "rejected-saturated";
      if (saturated && wait_again()) return;  // an ejected endpoint has no room either
      if (!saturated && search.widen()) return schedule_again();
      director.probe_->attempts(false, c.target_model, "", "", "").add();
      return refuse(std::move(scheduled).error());
    }
    if (wants_cached(c.headers) && !is_cached(c, *pipeline))
      return refuse({Code::kPreconditionFailed, "no decode worker has the requested KV cache", {}});
    const auto& spec = c.target().spec();
    loop.series_->attempt(c.target_model, spec.name, spec.ns, spec.port).add();
    committed = true;
    if (auto ok = schedule::run_pre_request(c, *pipeline); !ok)
      return refuse(std::move(ok).error());
    decisions.end_stage(c, Stage::kCommit);
    placement.choose(targets(c));
    series = &loop.series_->get(labels());
    if (!attempts.any()) {
      series->requests.add();
      series->request_bytes.observe(static_cast<double>(c.request_bytes));
    }
    send();
  }

  /// Whether a request that was let in waits again, since all endpoints are full or gone after all,
  /// or those that have not failed it are.
  bool wait_again() {
    if (loop.draining_ || !pipeline->admission || !pipeline->admission->wait_again(*context))
      return false;
    begin_wait();
    waited_again = true;
    return true;
  }
  bool waited_again = false;

  /// Decides anew, with the endpoints as they are now.
  void schedule_again() {
    state = State::kProducing;
    decisions.decide_anew(*context);
    if (auto ok = schedule::begin_try(*context, *pipeline); !ok)
      return refuse(std::move(ok).error());
    screen();
  }

  Placement placement;

  void send() {
    auto& c = *context;
    if (!attempts.any()) director.probe_->request_processing.observe(seconds(decided - c.received));
    state = State::kForwarded;
    decisions.sent(c, pipeline.get(), attempts, *placement.endpoint(), decided);
    placement.sent(decided);
    settle();
    if (series && !c.target_model.empty()) {
      series->running.add(1);
      running = true;
    }
    RequestTrace::end_orchestration(c);
    sink.forward({.endpoints = placement.endpoints(),
                  .set_headers = forwarded_headers(c, made_request_id, trace.traceparent()),
                  .splices = rewrite.splices(),
                  .decision = committed ? &c : nullptr,
                  .fresh_connection = attempts.wants_fresh_connection(),
                  .port = c.forward_port});
  }

  RequestLabels labels() const {
    const auto& c = *context;
    return {view.model, c.target_model, c.fairness_id, c.priority};
  }

  // --- suspension

  void on_resume() override {
    if (!accept(Event::kResume)) return;
    suspension.settle();
    state == State::kWaiting ? admit() : produce();
  }

  void on_deadline() override {
    if (!accept(Event::kDeadline)) return;
    suspension.settle();
    if (state == State::kWaiting)
      return refuse(
          {Code::kResourceExhausted, "request timed out in queue", "rejected-ttl-expired"});
    producers.skip(*context, "deadline passed");
    produce();
  }

  // --- refusals and ends

  /// A request that an endpoint has failed is answered with that: its further tries are our doing.
  void refuse(Error error) {
    if (!attempts.any()) return answer(std::move(error), 0);
    leave_queue(EndCause::kError);
    decisions.refused(*context, pipeline.get(), attempts, error, http_status(error.code));
    answer_failure(attempts.last_failure());
  }

  void answer_failure(UpstreamFailure failure) {
    if (attempts.tries() > 1) director.probe_->retries_exhausted.add();
    const auto [status, text] = describe(failure);
    answer({Code::kServiceUnavailable, std::string(text), {}}, status);
  }

  /// Ends the request with a reply of our own. `status` 0: the code's own.
  void answer(Error error, int status) {
    auto& c = *context;
    director.probe_->count_error(labels(), error.code);
    if (c.trace) c.trace->fail(error.message);
    if (state != State::kForwarded && !attempts.any())
      director.probe_->request_processing.observe(seconds(clock.now() - c.received));
    if (status == 0) status = http_status(error.code);
    leave_queue(EndCause::kError);
    decisions.ended(c, pipeline.get(), attempts, error, status);
    const auto text =
        arena->copy(fmt::format("inference error: {} - {}", code_name(error.code), error.message));
    const auto reason = arena->copy(error.drop_reason);
    log_refused(c, view, placement.endpoint(), status, reason, error.message);
    reply({status, error.code, text, reason, c.request_id, error.retry_after}, EndCause::kError);
  }

  void on_evict() override {
    if (!accept(Event::kEvict)) return;
    break_off({Code::kResourceExhausted, "request evicted by flow control", "evicted"}, 429,
              EndCause::kEvicted);
  }

  /// Ends the request, wherever it is, with a reply that says the error as it is.
  void break_off(const Error& error, int status, EndCause cause) {
    const auto& c = *context;
    if (c.trace) c.trace->fail(error.message);
    leave_queue(cause);
    if (state >= State::kForwarded)
      decisions.answered(c, pipeline.get(), attempts.tries() + 1, error, status);
    else
      decisions.refused(c, pipeline.get(), attempts, error, status);
    log_refused(c, view, placement.endpoint(), status, error.drop_reason, error.message);
    reply({status, error.code, error.message, error.drop_reason, c.request_id}, cause);
  }

  void refuse_rest(int status, const Error& error) {
    director.probe_->count_error(labels(), error.code);
    if (state < State::kForwarded && !attempts.any())
      director.probe_->request_processing.observe(seconds(clock.now() - context->received));
    break_off(error, status, EndCause::kError);
  }

  /// Ends the request. `answer` views the arena, the request's headers, or what the caller holds.
  void reply(const Reply& answer, EndCause cause) {
    end_hooks(cause);
    // The front end may begin the next request, or end this session, within reply().
    LoopDirector& owner_loop = loop;
    auto kept = release();
    sink.reply(answer);
    owner_loop.give_back(std::move(kept));
  }

  /// What the request reserved when it was let in shows in the load by now, or is not needed.
  void settle() {
    if (pipeline && pipeline->admission) pipeline->admission->settle(*context);
  }

  /// Before its end is noted: what is known of its wait comes with it.
  void leave_queue(EndCause cause) {
    if (state != State::kWaiting) return;
    decisions.end_stage(*context, Stage::kAdmit);
    pipeline->admission->leave(*context, cause);
  }

  void end_hooks(EndCause cause) {
    settle();
    placement.left();
    if (running) series->running.add(-1);
    running = false;
    if (!std::exchange(committed, false)) return;
    const auto usage = cause == EndCause::kNatural ? meter.usage() : meter.usage_so_far();
    for (const auto& step : pipeline->response) step.plugin->on_end(*context, cause, usage);
    if (pipeline->admission) pipeline->admission->made_room();
  }

  void abort(EndCause cause) {
    if (state == State::kIdle) return;
    const auto& c = *context;
    const Error error = describe(cause);
    if (cause == EndCause::kError || cause == EndCause::kShutdown)
      director.probe_->count_error(labels(), error.code);
    if (c.trace) c.trace->fail(error.message);
    log_aborted(c, view, placement.endpoint(), state, cause);
    leave_queue(cause);
    if (state < State::kForwarded)
      decisions.refused(c, pipeline.get(), attempts, error, 0);
    else if (cause == EndCause::kShutdown)
      decisions.answered(c, pipeline.get(), attempts.tries() + 1, error, 0);
    end_hooks(cause);
    finish();
  }

  // --- response side

  void upstream_failed(UpstreamFailure failure) {
    const auto& probe = *director.probe_;
    probe.upstream_failures[static_cast<size_t>(failure)].add();
    auto& endpoint = *placement.endpoint();
    const auto& c = *context;
    placement.failed(failure, *c.snapshot, clock.now());
    if (state == State::kResponding) return abort(EndCause::kError);
    if (!attempts.another_after(failure, endpoint, director.retry_)) return answer_failure(failure);
    probe.retries[static_cast<size_t>(failure)].add();
    log_retried(c, endpoint, failure, attempts.tries());
    end_hooks(EndCause::kError);
    if (!c.request) return route_without_body();
    RequestTrace::orchestrate(*context);
    decisions.begin_try(*context);
    schedule_again();
  }

  /// A proxy in front may have fallen back to another endpoint than the one that it was to prefer:
  /// what is charged, and what is learnt of the answer, is then that one's.
  void note_served(std::string_view served) {
    context->served = arena->copy(served);
    if (!committed || served.empty() || served == placement.endpoint()->host_port()) return;
    auto* const endpoint = retarget(*context, served);
    if (!endpoint) return;
    placement.moved({arena->make<fleet::Endpoint*>(endpoint), 1});
    decisions.served(*context, pipeline.get(), attempts, *endpoint);
    for (const auto& step : pipeline->pre_request)
      if (auto* hook = dynamic_cast<const schedule::MovedHook*>(step.plugin))
        hook->on_moved(*context);
  }

  void response_headers(int status, HeaderView headers, std::string_view served) {
    state = State::kResponding;
    response_status = status;
    note_served(served);
    placement.answered(status, *context->snapshot, clock.now());
    const bool streaming = view.stream || headers.get("content-type").find("text/event-stream") !=
                                              std::string_view::npos;
    rewrite.answer_names(context->target_model, view);
    auto* usage = parser ? parser->scan_response(context->path, streaming, *arena) : nullptr;
    meter = ResponseMeter(context->received, clock.now(), streaming, usage, series);
    if (committed)
      for (const auto& step : pipeline->response) step.plugin->on_response_head(*context);
    if (status != 200 && committed) director.probe_->count_error(labels(), Code::kModelServerError);
  }

  void response_body(std::string_view chunk) {
    if (!meter.chunk(chunk, clock) || !committed) return;
    for (const auto& step : pipeline->response) step.plugin->on_first_chunk(*context);
  }

  std::span<const schedule::Report> report() {
    meter.finish_usage();
    schedule::Stopwatch stopwatch;
    for (const auto& step : pipeline->reporters) {
      step.plugin->report(*context, meter.usage());
      step.duration.observe(stopwatch.lap());
    }
    return context->reports.view();
  }

  void response_end() {
    const TimePoint now = clock.now();
    meter.end(now, director.probe_->response_processing);
    placement.used(meter.usage());
    log_served(*context, view, {*placement.endpoint(), response_status, decided, now}, meter);
    end_hooks(EndCause::kNatural);
    finish();
  }
};

Session::Session(LoopDirector& director, SessionSink& sink)
    : impl_(std::make_unique<Impl>(director, sink)) {
  impl_->owner = this;
}
Session::~Session() = default;

void Session::restrict_to(std::optional<std::span<const std::string_view>> subset) {
  impl_->search.subset.addresses = subset;
}

void Session::carried_by(std::string_view traceparent) {
  impl_->carrier = traceparent;
}

void Session::on_headers(std::string_view target, HeaderView headers, bool end_of_stream) {
  if (!impl_->accept(Event::kHeaders)) return;
  impl_->begin(target, headers);
  if (end_of_stream) return impl_->route_without_body();
  impl_->choose_parser();
}

void Session::on_body(std::string_view body) {
  if (impl_->accept(Event::kBody) && impl_->scan) impl_->scan->feed(body);
}

void Session::on_end(std::string_view body) {
  if (impl_->accept(Event::kEnd)) impl_->parse_and_admit(body);
}

void Session::on_response_headers(int status, HeaderView headers, std::string_view served) {
  if (impl_->accept(Event::kResponseHeaders)) impl_->response_headers(status, headers, served);
}

void Session::on_response_body(std::string_view chunk) {
  if (impl_->accept(Event::kResponseBody)) impl_->response_body(chunk);
}

codec::JsonRename* Session::renaming() {
  return impl_->rewrite.renaming();
}

bool Session::reports_answers() const {
  return impl_->state == State::kResponding && impl_->committed &&
         !impl_->pipeline->reporters.empty();
}

std::span<const schedule::Report> Session::reports() {
  return reports_answers() ? impl_->report() : std::span<const schedule::Report>{};
}

void Session::on_response_end() {
  if (impl_->accept(Event::kResponseEnd)) impl_->response_end();
}

void Session::on_upstream_failed(UpstreamFailure failure) {
  if (impl_->accept(Event::kUpstreamFailed)) impl_->upstream_failed(failure);
}

void Session::refuse(int status, const Error& error) {
  if (impl_->accept(Event::kRefuse)) impl_->refuse_rest(status, error);
}

void Session::on_abort(EndCause cause) {
  if (impl_->accept(Event::kAbort)) impl_->abort(cause);
}

void Session::on_drain() {
  if (impl_->accept(Event::kDrain)) impl_->refuse_draining("request evicted from queue");
}

std::span<const HeaderField> Session::response_headers() const {
  return active() ? impl_->context->response_headers.fields() : std::span<const HeaderField>{};
}

bool Session::active() const {
  return impl_->state != State::kIdle;
}

std::string_view Session::request_id() const {
  return active() ? impl_->context->request_id : std::string_view{};
}

}  // namespace llmd::route
