#include "schedule/decision_history.h"

#include "base/check.h"
#include "schedule/pipeline.h"
#include "schedule/request_context.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace llmd::schedule {
namespace {

const OutlinePtr kNoOutline;

constexpr size_t padded(size_t bytes) {
  return (bytes + alignof(uint64_t) - 1) / alignof(uint64_t) * alignof(uint64_t);
}

/// Lays values out one after the other, each on a multiple of 8 bytes. Without memory it only
/// counts bytes.
class Writer {
 public:
  explicit Writer(std::byte* to = nullptr) : to_(to) {}

  template <class T>
  void one(const T& value) {
    if (T* at = room<T>(1)) std::memcpy(at, &value, sizeof value);
  }
  /// Preceded by how many there are.
  template <class T>
  void list(std::span<const T> values) {
    T* at = counted<T>(values.size());
    if (at && !values.empty()) std::memcpy(at, values.data(), values.size_bytes());
  }
  /// Room for a list that the caller fills; null when only counting.
  template <class T>
  T* counted(size_t count) {
    one(uint64_t{count});
    return room<T>(count);
  }
  void text(std::string_view text) {
    list(std::span<const char>(text.substr(0, DecisionHistory::kTextBytesMax)));
  }
  size_t bytes() const { return bytes_; }

 private:
  template <class T>
  T* room(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(uint64_t));
    std::byte* const at = to_ ? to_ + bytes_ : nullptr;
    bytes_ += padded(count * sizeof(T));
    return reinterpret_cast<T*>(at);
  }

  std::byte* const to_;
  size_t bytes_ = 0;
};

/// Reads what a Writer wrote. Past the end everything is zero or empty.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T one() {
    T value{};
    if (const auto* at = take(sizeof value)) std::memcpy(&value, at, sizeof value);
    return value;
  }
  template <class T>
  std::span<const T> list() {
    const auto count = static_cast<size_t>(one<uint64_t>());
    const auto* first = reinterpret_cast<const T*>(take(count * sizeof(T)));
    return first ? std::span(first, count) : std::span<const T>();
  }
  std::string_view text() {
    const auto chars = list<char>();
    return {chars.data(), chars.size()};
  }

 private:
  const std::byte* take(size_t bytes) {
    if (bytes == 0 || padded(bytes) > bytes_.size()) return nullptr;
    const auto* at = bytes_.data();
    bytes_ = bytes_.subspan(padded(bytes));
    return at;
  }

  std::span<const std::byte> bytes_;
};

int32_t narrow(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<int32_t>::max()));
}

DecisionFacts facts_of(const RequestContext& c, const TryOutcome& outcome) {
  DecisionFacts facts{
      .at = outcome.at,
      .received = c.received,
      .target = outcome.target,
      .request_bytes = c.request_bytes,
      .code = outcome.code,
      .priority = c.priority,
      .candidates = outcome.decided ? static_cast<uint32_t>(c.candidates.size()) : 0,
      .status = outcome.status,
      .number = outcome.number,
      .primary = c.primary,
      .decided = outcome.decided};
  if (!c.notes || !outcome.decided) return facts;
  facts.stages = c.notes->stages;
  facts.handler = c.notes->handler;
  facts.wait = c.notes->wait;
  return facts;
}

void write_head(Writer& out, const RequestContext& c, const TryOutcome& outcome,
                const DecisionFacts& facts) {
  out.text(c.request_id);
  out.one(facts);
  out.text(c.path);
  out.text(c.request ? c.request->model : std::string_view{});
  out.text(c.target_model);
  out.text(outcome.after);
  out.text(outcome.error);
  out.text(outcome.drop_reason);
}

void write_candidates(Writer& out, std::span<const Candidate> candidates, TimePoint now) {
  CandidateNote* note = out.counted<CandidateNote>(candidates.size());
  if (!note) return;
  for (const auto& candidate : candidates) {
    const auto& metrics = candidate.metrics;
    const double age = metrics.ever_updated() ? seconds(now - metrics.updated) : -1;
    *note++ = {.endpoint = candidate.endpoint,
               .waiting = narrow(metrics.waiting_queue_size),
               .running = narrow(metrics.running_requests_size),
               .kv_usage = static_cast<float>(metrics.kv_cache_usage),
               .metrics_age = static_cast<float>(age)};
  }
}

struct ProfileFacts {
  Turn turn;
  bool ran = false;
  bool failed = false;
};

void write_body(Writer& out, const RequestContext& c, const TryOutcome& outcome) {
  write_candidates(out, c.candidates, outcome.at);
  const auto& notes = *c.notes;
  out.list(std::span<const float>(notes.producers));
  out.one(uint64_t{notes.profiles.size()});
  for (size_t i = 0; i < notes.profiles.size(); ++i) {
    const auto& result = c.results[i];
    const auto& note = notes.profiles[i];
    out.one(ProfileFacts{note.turn, result.ran, result.failed});
    out.list(result.targets);
    out.list(result.scored);
    out.list(result.totals);
    out.list(std::span<const double>(note.scores));
    out.list(std::span<const uint16_t>(note.passed));
    out.list(std::span<const float>(note.seconds));
  }
}

/// Pins `now`. Most decisions pin what the one in their place did, which costs nothing.
template <class T>
void pin(std::shared_ptr<T>& pinned, const std::shared_ptr<T>& now) {
  if (pinned != now) pinned = now;
}

}  // namespace

Decision KeptDecision::read() const {
  Reader in(bytes);
  Decision decision;
  decision.request_id = in.text();
  static_cast<DecisionFacts&>(decision) = in.one<DecisionFacts>();
  for (auto* text : {&decision.path, &decision.model, &decision.target_model, &decision.after,
                     &decision.error, &decision.drop_reason})
    *text = in.text();
  decision.candidate_notes = in.list<CandidateNote>();
  decision.producers = in.list<float>();
  decision.profiles.resize(static_cast<size_t>(in.one<uint64_t>()));
  for (auto& profile : decision.profiles) {
    const auto facts = in.one<ProfileFacts>();
    profile.turn = facts.turn;
    profile.ran = facts.ran;
    profile.failed = facts.failed;
    profile.targets = in.list<uint32_t>();
    profile.scored = in.list<uint32_t>();
    profile.totals = in.list<double>();
    profile.scores = in.list<double>();
    profile.passed = in.list<uint16_t>();
    profile.seconds = in.list<float>();
  }
  return decision;
}

DecisionHistory::DecisionHistory(size_t decisions_max)
    : entries_(decisions_max),
      capacity_(decisions_max * kBytesEach),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(capacity_)) {
  CHECK(decisions_max > 0);
}

void DecisionHistory::add(const RequestContext& context, const Pipeline* pipeline,
                          const TryOutcome& outcome) {
  DecisionFacts facts = facts_of(context, outcome);
  const bool has_body = context.notes && outcome.decided;
  Writer measure;
  write_head(measure, context, outcome, facts);
  const size_t head = measure.bytes();
  if (has_body) write_body(measure, context, outcome);
  facts.cut = measure.bytes() > std::max(capacity_ / 4, kBytesEach);
  const size_t size = facts.cut ? head : measure.bytes();

  const size_t begin = make_room(size);
  Writer out(&bytes_[begin]);
  write_head(out, context, outcome, facts);
  if (has_body && !facts.cut) write_body(out, context, outcome);
  Entry& slot = entries_[next_++ % entries_.size()];
  slot.begin = begin;
  slot.size = size;
  slot.head = head;
  slot.at = outcome.at;
  pin(slot.outline, pipeline ? pipeline->outline : kNoOutline);
  pin(slot.snapshot, context.snapshot);
}

/// Drops the oldest entries until `bytes` in a row are free and an entry is left for them; returns
/// where they begin. The kept ones lie in a ring: the oldest one is the first behind free_.
size_t DecisionHistory::make_room(size_t bytes) {
  if (next_ - first_ == entries_.size()) ++first_;
  if (free_ + bytes > capacity_) {
    while (first_ < next_ && entry(first_).begin >= free_) ++first_;
    free_ = 0;
  }
  while (first_ < next_ && entry(first_).begin >= free_ && entry(first_).begin < free_ + bytes)
    ++first_;
  return std::exchange(free_, free_ + bytes);
}

std::vector<KeptDecision> DecisionHistory::find(const DecisionQuery& query) const {
  std::vector<KeptDecision> found;
  for (uint64_t number = next_; number > first_ && found.size() < query.limit; --number) {
    const Entry& kept = entry(number - 1);
    const std::span whole(&bytes_[kept.begin], kept.size);
    if (!query.request_id.empty() && Reader(whole).text() != query.request_id) continue;
    const auto copied = query.request_id.empty() ? whole.first(kept.head) : whole;
    found.push_back({kept.at, {copied.begin(), copied.end()}, kept.outline, kept.snapshot});
  }
  return found;
}

}  // namespace llmd::schedule
