#include "kv_shared/shared_index.h"

#include "change_queue.h"
#include "commands.h"
#include "look_up.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "io/loop_thread.h"
#include "tls/context.h"

#include <array>
#include <atomic>
#include <charconv>
#include <future>
#include <list>
#include <map>
#include <utility>

namespace llmd::kv_shared {
namespace {

constexpr Nanos kKept = std::chrono::seconds(1);  // answers that nobody has come for

using metric::Definition;
using metric::Kind;

const Definition kUp = {.name = "llmd_kv_shared_index_up",
                        .kind = Kind::kGauge,
                        .help = "Whether the server of the shared KV index answers look-ups.",
                        .labels = {},
                        .buckets = {},
                        .twins = {}};
const Definition kLookUps = {
    .name = "llmd_kv_shared_index_lookups_total",
    .kind = Kind::kCounter,
    .help =
        "Requests looked up in the shared KV index: answered, failed, or skipped since its "
        "server is away or too many are under way.",
    .labels = {"result"},
    .buckets = {},
    .twins = {}};
const Definition kChanges = {
    .name = "llmd_kv_shared_index_changes_total",
    .kind = Kind::kCounter,
    .help =
        "Commands that change the shared KV index: written, refused by its server, or lost "
        "because too many waited for it.",
    .labels = {"result"},
    .buckets = {},
    .twins = {}};

metric::Counter counter(metric::Registry& metrics, const Definition& family,
                        std::string_view result) {
  return metrics.family(family).counter(std::array{result});
}

std::shared_ptr<tls::Context> context_for(const redis::Address& address,
                                          metric::Registry& metrics) {
  if (!address.tls) return nullptr;
  auto made = tls::Context::client({}, tls::Metrics::of(metrics, "kv-index"));
  if (made) return std::move(*made);
  log::error("the shared KV index cannot be reached", {{"error", made.error().message}});
  return nullptr;
}

using Outcome = std::optional<std::vector<Hit>>;

/// A question from ask() to take().
struct Asked {
  std::function<void()> resume;
  bool ended = false;
  Outcome outcome;
  TimePoint end{};
};

/// A question for the request key of an engine key.
struct KeyQuestion final : redis::ReplyHandler {
  void on_reply(const redis::Reply& reply) override {
    std::optional<uint64_t> key;
    reply.each([&](const redis::Reply& value) {
      uint64_t number = 0;
      const auto text = value.text();
      const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
      if (error == std::errc() && end == text.end()) key = number;
    });
    end(key);
  }
  void on_failure() override { end(std::nullopt); }
  void end(std::optional<uint64_t> key) {
    answer.set_value(key);
    ended();  // destroys this
  }
  std::promise<std::optional<uint64_t>> answer;
  std::function<void()> ended;
};

}  // namespace

struct SharedIndex::State {
  State(SharedIndexOptions o, metric::Registry& metrics, size_t cell,
        const fleet::Resolver& resolver)
      : options(std::move(o)),
        thread("kv-index", cell, random_seed()),
        up_gauge(metrics.family(kUp).gauge({})),
        answered(counter(metrics, kLookUps, "answered")),
        failed(counter(metrics, kLookUps, "failed")),
        skipped(counter(metrics, kLookUps, "skipped")),
        changes(thread.loop(), options.waiting_bytes_max,
                {counter(metrics, kChanges, "written"), counter(metrics, kChanges, "refused"),
                 counter(metrics, kChanges, "lost")}),
        tls(context_for(options.address, metrics)),
        writer(thread.loop(), options.address, tls, resolver,
               [this](bool now_up, std::string_view) {
                 now_up ? changes.on_up() : changes.on_down();
               }),
        reader(thread.loop(), options.address, tls, resolver,
               [this](bool now_up, std::string_view why) { note(now_up, why); }) {
    changes.set_client(writer);
  }

  void note(bool now_up, std::string_view why) {
    if (now_up)
      log::info("the shared KV index is there", {{"server", options.address.name()}});
    else
      log::warn("the shared KV index is not there: requests go by what this router has heard",
                {{"server", options.address.name()}, {"error", why}});
    up.store(now_up, std::memory_order_relaxed);
    up_gauge.set(now_up ? 1 : 0);
  }

  void change(const Entry& entry, std::string commands, size_t count) {
    if (count == 0) return;
    changes.push({.pod = entry.pod, .commands = std::move(commands), .count = count});
  }

  void begin(uint64_t ticket, Question question) {
    if (!reader.up()) return settle(ticket, std::nullopt);
    const auto at = look_ups.emplace(look_ups.end());
    *at = std::make_unique<LookUp>(reader, options.weight, std::move(question),
                                   [this, ticket, at](Outcome outcome) {
                                     const auto ended = std::move(*at);
                                     look_ups.erase(at);
                                     settle(ticket, std::move(outcome));
                                   });
    (*at)->start();
  }

  void begin(std::unique_ptr<KeyQuestion> question, uint64_t engine_key) {
    if (!reader.up()) return question->answer.set_value(std::nullopt);
    const auto at = key_questions.insert(key_questions.end(), std::move(question));
    (*at)->ended = [this, at] { key_questions.erase(at); };
    std::string commands;
    const size_t count = append_request_key(commands, engine_key);
    reader.send(commands, count, **at);
  }

  void settle(uint64_t ticket, Outcome outcome) {
    (outcome ? answered : failed).add();
    std::function<void()> resume;
    {
      const MutexLock lock(mutex);
      const auto at = asked.find(ticket);
      if (at == asked.end()) return;
      at->second.ended = true;
      at->second.outcome = std::move(outcome);
      at->second.end = thread.loop().clock().now();
      resume = at->second.resume;
    }
    resume();
  }

  /// Forgets answers whose requests went on without them.
  void forget(TimePoint now) LLMD_REQUIRES(mutex) {
    std::erase_if(asked,
                  [&](const auto& a) { return a.second.ended && a.second.end + kKept < now; });
  }

  const SharedIndexOptions options;
  io::LoopThread thread;
  const metric::Gauge up_gauge;
  const metric::Counter answered, failed, skipped;
  std::atomic<bool> up{false};
  std::atomic<bool> opened{false};

  // Of the thread.
  ChangeQueue changes;
  const std::shared_ptr<tls::Context> tls;
  redis::Client writer, reader;
  std::list<std::unique_ptr<LookUp>> look_ups;
  std::list<std::unique_ptr<KeyQuestion>> key_questions;

  Mutex mutex;
  std::map<uint64_t, Asked> asked LLMD_GUARDED_BY(mutex);  // by ticket
  uint64_t last_ticket LLMD_GUARDED_BY(mutex) = 0;
};

SharedIndex::SharedIndex(SharedIndexOptions options, metric::Registry& metrics, size_t cell,
                         fleet::Resolver resolver)
    : state_(std::make_unique<State>(std::move(options), metrics, cell, resolver)) {}

SharedIndex::~SharedIndex() {
  state_->thread.stop();
}

void SharedIndex::open() {
  State& s = *state_;
  if (s.opened.exchange(true) || (s.options.address.tls && !s.tls)) return;
  s.thread.loop().post([&s] {
    s.writer.open();
    s.reader.open();
  });
  s.thread.start();
}

void SharedIndex::store(const Entry& entry, std::span<const uint64_t> keys,
                        std::span<const uint64_t> engine_keys) {
  std::string commands;
  const size_t count = append_store(commands, encode(entry), keys, engine_keys);
  state_->change(entry, std::move(commands), count);
}

void SharedIndex::remove(const Entry& entry, std::span<const uint64_t> engine_keys) {
  std::string commands;
  const size_t count = append_remove(commands, encode(entry), engine_keys);
  state_->change(entry, std::move(commands), count);
}

void SharedIndex::remove_keys(const Entry& entry, std::span<const uint64_t> keys) {
  std::string commands;
  const size_t count = append_remove_keys(commands, encode(entry), keys);
  state_->change(entry, std::move(commands), count);
}

void SharedIndex::clear(std::string_view pod) {
  state_->changes.push({.pod = std::string(pod), .commands = {}});
}

std::optional<uint64_t> SharedIndex::request_key(uint64_t engine_key) {
  State& s = *state_;
  if (!s.up.load(std::memory_order_relaxed)) return std::nullopt;
  auto question = std::make_unique<KeyQuestion>();
  auto answer = question->answer.get_future();
  s.thread.loop().post(
      [&s, engine_key, q = std::move(question)]() mutable { s.begin(std::move(q), engine_key); });
  if (answer.wait_for(kKeyTimeout) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

bool SharedIndex::available() const {
  const bool up = state_->up.load(std::memory_order_relaxed);
  if (!up) state_->skipped.add();
  return up;
}

Result<uint64_t> SharedIndex::ask(Question question, std::function<void()> resume) {
  State& s = *state_;
  uint64_t ticket;
  {
    const MutexLock lock(s.mutex);
    if (s.asked.size() >= kQuestionsMax) s.forget(s.thread.loop().clock().now());
    if (s.asked.size() >= kQuestionsMax) {
      s.skipped.add();
      return fail(Code::kResourceExhausted, "too many questions for the shared KV index");
    }
    ticket = ++s.last_ticket;
    s.asked[ticket].resume = std::move(resume);
  }
  s.thread.loop().post(
      [&s, ticket, q = std::move(question)]() mutable { s.begin(ticket, std::move(q)); });
  return ticket;
}

Result<std::vector<Hit>> SharedIndex::take(uint64_t ticket) {
  const MutexLock lock(state_->mutex);
  const auto at = state_->asked.find(ticket);
  if (at == state_->asked.end() || !at->second.ended)
    return fail(Code::kInternal, "the shared KV index has not answered");
  Outcome outcome = std::move(at->second.outcome);
  state_->asked.erase(at);
  if (!outcome) return fail(Code::kServiceUnavailable, "the shared KV index did not answer");
  return std::move(*outcome);
}

}  // namespace llmd::kv_shared
