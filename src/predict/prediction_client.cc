#include "predict/prediction_client.h"

#include "messages.h"

#include "base/log.h"
#include "base/mutex.h"
#include "fetch/post.h"
#include "fetch/questions.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <utility>
#include <vector>

namespace llmd::predict {
namespace {

const metric::Definition kCalls = {
    .name = "llmd_prediction_calls_total",
    .kind = metric::Kind::kCounter,
    .help = "Calls of the prediction service.",
    .labels = {"result"},
    .buckets = {},
    .twins = {},
};
const metric::Definition kSamples = {
    .name = "llmd_prediction_samples_total",
    .kind = metric::Kind::kCounter,
    .help = "Measured latencies for the training service.",
    .labels = {"result"},
    .buckets = {},
    .twins = {},
};

metric::Counter counter(metric::Registry& metrics, const metric::Definition& definition,
                        std::string_view result) {
  return metrics.family(definition).counter(std::array{result});
}

using Outcome = Result<std::vector<PredictedLatency>>;

/// What one request wants to know. Belongs to the loop.
struct Ask {
  uint64_t ticket = 0;
  std::vector<std::string> rows;
  std::vector<PredictedLatency> answers;
  size_t missing = 0;   // answers
  bool failed = false;  // any of its calls
};
using AskPtr = std::shared_ptr<Ask>;

/// Some of the rows of an ask.
struct Part {
  AskPtr ask;
  size_t first = 0;
  size_t count = 0;
};

/// Says once that something does not work, and once that it does again.
class Health {
 public:
  Health(std::string_view fails, std::string_view works) : fails_(fails), works_(works) {}
  void note(std::string_view why, std::string_view server) {
    if (why.empty() == good_) return;
    good_ = why.empty();
    if (good_)
      log::info(works_, {{"server", server}});
    else
      log::warn(fails_, {{"server", server}, {"error", why}});
  }

 private:
  const std::string_view fails_, works_;
  bool good_ = true;
};

/// A part of the samples, of bounded size, in which each has had the same chance.
class Reservoir {
 public:
  /// False: one is left out.
  bool add(std::string sample, size_t most, Rng& rng) {
    ++seen_;
    if (samples_.size() < most) {
      samples_.push_back(std::move(sample));
      return true;
    }
    if (const size_t at = rng.below(seen_); at < most) samples_[at] = std::move(sample);
    return false;
  }
  std::vector<std::string> take() {
    seen_ = 0;
    return std::exchange(samples_, {});
  }

 private:
  std::vector<std::string> samples_;
  size_t seen_ = 0;
};

}  // namespace

struct PredictionClient::State {
  /// A call under way, or a free one.
  struct Call final : fetch::Post {
    explicit Call(State& s) : Post(s.loop, s.client, kAnswerBytesMax), state(s) {}

    void ask(std::vector<Part> of, std::string body) {
      parts = std::move(of);
      reader.emplace();
      server = &state.predictors[state.loop.rng().below(state.predictors.size())];
      start(*server, "/predict/bulk/strict", std::move(body), state.options.timeout);
    }
    void on_answer(std::string_view bytes) override { reader->feed(bytes); }
    void on_ended(std::string_view why, bool reached) override { state.ended(*this, why, reached); }

    State& state;
    fetch::Server* server = nullptr;
    std::vector<Part> parts;
    std::optional<PredictionsReader> reader;
  };

  struct Training final : fetch::Post {
    explicit Training(State& s) : Post(s.loop, s.client, kAnswerBytesMax), state(s) {}
    void send(std::string body, size_t samples) {
      count = samples;
      start(state.trainer, "/add_training_data_bulk", std::move(body), state.options.timeout);
    }
    void on_ended(std::string_view why, bool) override {
      (why.empty() ? state.samples_sent : state.samples_failed).add(static_cast<double>(count));
      state.training_health.note(why, state.trainer.name());
    }

    State& state;
    size_t count = 0;
  };

  State(io::Loop& l, ServiceOptions o, fleet::Resolver r, metric::Registry& metrics)
      : loop(l),
        options(std::move(o)),
        resolver(std::move(r)),
        client(l),
        trainer(options.trainer, resolver, context_for(options.trainer, metrics)),
        answered(counter(metrics, kCalls, "answered")),
        failed(counter(metrics, kCalls, "failed")),
        samples_sent(counter(metrics, kSamples, "sent")),
        samples_failed(counter(metrics, kSamples, "failed")),
        samples_dropped(counter(metrics, kSamples, "dropped")),
        window(l),
        flush_timer(l),
        training(*this),
        rng(l.rng().next()) {
    for (const auto& spec : options.predictors)
      predictors.emplace_back(spec, resolver, context_for(spec, metrics));
    arm_flush();
  }

  static std::shared_ptr<tls::Context> context_for(const fleet::EndpointSpec& spec,
                                                   metric::Registry& metrics) {
    if (spec.scheme != "https") return nullptr;
    auto made = tls::Context::client({}, tls::Metrics::of(metrics, "prediction"));
    if (made) return std::move(*made);
    log::warn("predictions cannot be had over https",
              {{"server", spec.name}, {"error", made.error().message}});
    return nullptr;
  }

  // --- asking, on the loop

  void enqueue(AskPtr ask) {
    rows_waiting += ask->rows.size();
    waiting.push_back({std::move(ask), 0, 0});
    if (options.window.count() == 0 || rows_waiting >= options.rows_max) return dispatch();
    if (!window.armed()) window.arm(options.window, [this] { dispatch(); });
  }

  /// Sends what waits, as far as there are free calls.
  void dispatch() {
    window.cancel();
    while (!waiting.empty()) {
      Call* call = free_call();
      if (!call) return;
      std::vector<Part> parts;
      std::string body = R"({"requests":[)";
      for (size_t room = options.rows_max; room > 0 && !waiting.empty();) {
        Part& next = waiting.front();
        const size_t end = std::min(next.ask->rows.size(), next.first + room);
        for (size_t i = next.first; i < end; ++i) {
          if (body.back() != '[') body += ',';
          body += next.ask->rows[i];
        }
        const size_t count = end - next.first;
        parts.push_back({next.ask, next.first, count});
        room -= count;
        rows_waiting -= count;
        next.first = end;
        if (end == next.ask->rows.size()) waiting.pop_front();
      }
      call->ask(std::move(parts), body + "]}");
    }
  }

  Call* free_call() {
    for (auto& call : calls)
      if (!call->active()) return call.get();
    if (calls.size() == options.calls_max) return nullptr;
    return calls.emplace_back(std::make_unique<Call>(*this)).get();
  }

  void ended(Call& call, std::string_view why, bool reached) {
    const auto parts = std::exchange(call.parts, {});
    size_t rows = 0;
    for (const auto& part : parts) rows += part.count;
    const auto predictions =
        why.empty() ? call.reader->finish() : std::optional<std::span<const PredictedLatency>>();
    const bool good = predictions && predictions->size() == rows;
    if (why.empty() && !good) why = "the answer is not a prediction for each row";
    (good ? answered : failed).add();
    health.note(why, call.server->name());
    if (!reached) paused_until = (loop.clock().now() + kPause).time_since_epoch().count();
    size_t at = 0;
    for (const auto& part : parts) {
      if (good)
        std::ranges::copy(predictions->subspan(at, part.count),
                          part.ask->answers.begin() + static_cast<ptrdiff_t>(part.first));
      else
        part.ask->failed = true;
      at += part.count;
      part.ask->missing -= part.count;
      if (part.ask->missing == 0) settle(*part.ask);
    }
    dispatch();
  }

  void settle(Ask& ask) {
    questions.answer(ask.ticket,
                     ask.failed ? Outcome(fail(Code::kServiceUnavailable,
                                               "the prediction service did not answer"))
                                : Outcome(std::move(ask.answers)),
                     loop.clock().now());
  }

  // --- learning, on the loop

  void arm_flush() {
    flush_timer.arm(options.flush_interval, [this] {
      flush();
      arm_flush();
    });
  }

  void flush() {
    std::vector<std::string> samples;
    {
      const MutexLock lock(mutex);
      if (training.active()) return;
      for (auto& kind : kinds)
        for (auto& sample : kind.take()) samples.push_back(std::move(sample));
    }
    if (samples.empty()) return;
    std::string body = R"({"entries":[)";
    for (const auto& sample : samples) {
      if (body.back() != '[') body += ',';
      body += sample;
    }
    training.send(body + "]}", samples.size());
  }

  io::Loop& loop;
  const ServiceOptions options;
  const fleet::Resolver resolver;
  http::Client client;
  std::deque<fetch::Server> predictors;
  fetch::Server trainer;
  const metric::Counter answered, failed, samples_sent, samples_failed, samples_dropped;
  Health health{"the prediction service fails", "the prediction service answers again"};
  Health training_health{"the training service fails", "the training service answers again"};

  std::deque<Part> waiting;  // `first` is the next row to send
  size_t rows_waiting = 0;
  io::Timer window, flush_timer;
  std::vector<std::unique_ptr<Call>> calls;
  Training training;
  std::atomic<int64_t> paused_until{0};
  std::shared_ptr<void> alive = std::make_shared<int>(0);  // expires with this; guards posted work

  fetch::Questions<Outcome> questions{kAsksMax};

  Mutex mutex;
  std::array<Reservoir, 2> kinds LLMD_GUARDED_BY(mutex);  // first tokens, later ones
  Rng rng LLMD_GUARDED_BY(mutex);
};

PredictionClient::PredictionClient(io::Loop& loop, ServiceOptions options, fleet::Resolver resolver,
                                   metric::Registry& metrics)
    : state_(std::make_unique<State>(loop, std::move(options), std::move(resolver), metrics)) {}

PredictionClient::~PredictionClient() = default;

Result<schedule::Progress> PredictionClient::predict(schedule::RequestContext& context,
                                                     uint64_t& ticket,
                                                     std::span<const LatencyFeatures> features,
                                                     std::span<PredictedLatency> latencies) {
  State& s = *state_;
  if (features.empty()) return schedule::Progress::kDone;
  if (ticket != 0) {
    const auto outcome = s.questions.take(std::exchange(ticket, 0));
    if (!outcome) return fail(Code::kInternal, "there is no prediction");
    if (!*outcome) return fail(outcome->error());
    if ((*outcome)->size() != latencies.size())
      return fail(Code::kInternal, "the prediction is for other endpoints");
    std::ranges::copy(**outcome, latencies.begin());
    return schedule::Progress::kDone;
  }
  const TimePoint now = s.loop.clock().now();
  if (now.time_since_epoch().count() < s.paused_until.load())
    return fail(Code::kServiceUnavailable, "the prediction service cannot be reached");
  const auto asked = s.questions.ask(context.suspend(), now);
  if (!asked) return fail(Code::kResourceExhausted, "too many requests wait for predictions");
  ticket = *asked;
  auto ask = std::make_shared<Ask>();
  ask->ticket = ticket;
  for (const auto& f : features) write_row(ask->rows.emplace_back(), f);
  ask->answers.resize(features.size());
  ask->missing = features.size();
  s.loop.post([&s, weak = std::weak_ptr(s.alive), ask = std::move(ask)]() mutable {
    if (weak.lock()) s.enqueue(std::move(ask));
  });
  return schedule::Progress::kSuspended;
}

void PredictionClient::learn(const LatencyFeatures& features, PredictedLatency actual,
                             WallTime when) {
  State& s = *state_;
  std::string sample;
  write_sample(sample, features, actual, when);
  const MutexLock lock(s.mutex);
  const size_t most = std::max<size_t>(1, s.options.samples_max / s.kinds.size());
  if (!s.kinds[actual.tpot_ms > 0 ? 1 : 0].add(std::move(sample), most, s.rng))
    s.samples_dropped.add();
}

PredictionService::PredictionService(size_t index, uint64_t seed, ServiceOptions options,
                                     metric::Registry& metrics)
    : thread_("predict", index, seed),
      client_(thread_.loop(), std::move(options), fleet::system_resolver(), metrics) {
  thread_.start();
}

}  // namespace llmd::predict
