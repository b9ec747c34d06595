#pragma once

#include "base/arena.h"
#include "base/arena_list.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/headers.h"
#include "base/rng.h"
#include "fleet/endpoint.h"
#include "request/request_view.h"
#include "trace/trace.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

namespace llmd::schedule {

/// A typed value per candidate, resolved to a column index when the configuration loads (Wiring in
/// wiring.h). Only the plugin that declared it as produced can write it: there is no way to touch
/// an undeclared attribute.
template <class T>
struct Consumed {
  uint16_t column = UINT16_MAX;
};
template <class T>
struct Produced {
  uint16_t column = UINT16_MAX;
};
/// The same for a value of the whole request.
template <class T>
struct ConsumedValue {
  uint16_t column = UINT16_MAX;
};
template <class T>
struct ProducedValue {
  uint16_t column = UINT16_MAX;
};
/// Private per-request state of one plugin instance, zero-initialised.
template <class T>
struct RequestSlot {
  uint16_t index = UINT16_MAX;
};

/// An endpoint that may be chosen, with what plugins ask of all of them.
struct Candidate {
  Candidate() = default;
  Candidate(fleet::Endpoint* e, const fleet::EndpointMetrics& m)
      : endpoint(e), generation(e->generation()), slot(e->slot()), metrics(m) {}

  fleet::Endpoint* endpoint = nullptr;
  uint64_t generation = 0;
  uint32_t slot = 0;
  fleet::EndpointMetrics metrics;  // read once, so that every plugin of a decision sees the same
};

/// A call into a request on its own loop: wakes a suspended one, or evicts one. Copyable; calling
/// it twice, late, or after the request ended does nothing. Threading: call from any thread.
class Signal {
 public:
  Signal() = default;
  explicit Signal(std::shared_ptr<std::function<void()>> send) : send_(std::move(send)) {}
  void operator()() const {
    if (send_) (*send_)();
  }

 private:
  std::shared_ptr<std::function<void()>> send_;
};

/// The targets that one profile chose.
struct ProfileResult {
  bool ran = false;
  bool failed = false;  // no endpoint survived
  std::span<const uint32_t>
      targets;  // candidate indices, the preferred first, the rest are fallbacks
  std::span<const uint32_t> scored;  // candidates that reached the scorers
  std::span<const double> totals;    // their total scores, parallel to `scored`
};

struct DecisionNotes;

/// The fairness id of requests that name none.
inline constexpr std::string_view kDefaultFairnessId = "default-flow";

/// Header lines that plugins set on a message, in the request's arena. One line a name: the last
/// one set wins.
class HeaderEdits {
 public:
  explicit HeaderEdits(Arena& arena) : fields_(arena) {}
  /// `name` and `value` live as long as the request.
  void set(std::string_view name, std::string_view value);
  std::span<const HeaderField> fields() const { return fields_.view(); }
  void clear() { fields_.clear(); }

 private:
  ArenaList<HeaderField> fields_;
};

/// A number about an answer that the proxy in front gets as dynamic metadata. The names live as
/// long as the pipeline.
struct Report {
  std::string_view space;
  std::string_view name;
  double value = 0;
};

/// Why a response ended.
enum class EndCause : uint8_t {
  kNatural,
  kClientDisconnect,
  kClientStalled,  // it took nothing of its answer for too long
  kEvicted,
  kShutdown,
  kError,
};

/// Everything one request's decision and its later hooks may see. Lives in the session, its spans
/// in the session's arena; valid from admission to the end of the response. Threading: the
/// request's loop only.
struct RequestContext {
  RequestContext(Arena& a, Rng& r, const Clock& c)
      : arena(a), rng(r), clock(c), request_headers(a), response_headers(a), reports(a) {}

  Arena& arena;
  Rng& rng;
  const Clock& clock;

  uint64_t serial = 0;  // unique in the process, unlike request ids
  std::string_view request_id;
  std::string_view path;  // without query
  HeaderView headers;
  const request::RequestView* request = nullptr;  // null for requests without a body
  size_t request_bytes = 0;
  std::string_view body;          // as it came, whole
  std::string_view target_model;  // after rewriting
  std::string_view fairness_id;
  int32_t priority = 0;
  TimePoint received{};
  trace::Trace* trace = nullptr;   // null: the request is not sampled
  DecisionNotes* notes = nullptr;  // null: nobody will ask why

  fleet::SnapshotPtr snapshot;       // pins the endpoints
  std::span<Candidate> candidates;   // after subset hint and screeners
  std::span<ProfileResult> results;  // by profile index of the pipeline
  uint16_t primary = UINT16_MAX;     // profile whose first target gets the request

  // What plugins change of the forwarded request and of its answer. Names of headers are lower
  // case.
  HeaderEdits request_headers;
  HeaderEdits response_headers;
  uint16_t forward_port = 0;  // instead of the endpoints' own; 0: their own

  /// What flow control keeps of the request.
  struct Admitted {
    void* waiter = nullptr;  // while it waits
    uint64_t reserved = 0;   // of the pool's room, until its load shows
    TimePoint since{};       // it first came
    uint8_t times = 0;       // it was let in
  } admitted;

  std::string_view served;    // "host:port" that answered, as the proxy says; "": it did not
  ArenaList<Report> reports;  // of plugins, about the answer

  /// The column of a consumed attribute, one entry per candidate; empty when no producer wrote it
  /// for this request.
  template <class T>
  std::span<const T> read(Consumed<T> attribute) const {
    if (attribute.column >= columns.size() || !columns[attribute.column]) return {};
    return {static_cast<const T*>(columns[attribute.column]), candidates.size()};
  }

  template <class T>
  std::span<const T> read(Produced<T> attribute) const {
    return read(Consumed<T>{attribute.column});
  }

  /// The column of a produced attribute, value-initialised at the first call of a request.
  template <class T>
  std::span<T> write(Produced<T> attribute) {
    static_assert(std::is_trivially_destructible_v<T>);
    void*& at = columns[attribute.column];
    if (!at) at = arena.array<T>(candidates.size()).data();
    return {static_cast<T*>(at), candidates.size()};
  }

  /// The same, not initialised: for a producer that sets every entry.
  template <class T>
  std::span<T> write_all(Produced<T> attribute) {
    void*& at = columns[attribute.column];
    if (!at) at = arena.room<T>(candidates.size()).data();
    return {static_cast<T*>(at), candidates.size()};
  }

  /// The request's value of an attribute; null when no producer set it.
  template <class T>
  const T* get(ConsumedValue<T> attribute) const {
    return attribute.column < columns.size() ? static_cast<const T*>(columns[attribute.column])
                                             : nullptr;
  }
  template <class T>
  void set(ProducedValue<T> attribute, T value) {
    static_assert(std::is_trivially_destructible_v<T>);
    columns[attribute.column] = arena.make<T>(std::move(value));
  }

  template <class T>
  T& slot(RequestSlot<T> s) {
    static_assert(std::is_trivially_destructible_v<T>);
    void*& at = slots[s.index];
    if (!at) at = arena.make<T>();
    return *static_cast<T*>(at);
  }

  /// Token for waking this request later; a plugin that answers kSuspended must have called it.
  Signal suspend() { return make_resume(); }
  /// The same for a plugin that only waits: the request wakes by itself after `delay`.
  void suspend_for(Nanos delay) { wake_in(delay); }
  /// Token for taking this request's endpoint away later (spec 03 §9.5): while it is with the
  /// endpoint, its client gets 429, or a broken answer where one has begun.
  Signal eviction() { return make_eviction(); }

  /// The endpoint that is accounted for: first target of the primary profile. Requires: scheduling
  /// succeeded.
  fleet::Endpoint& target() const { return *candidates[results[primary].targets[0]].endpoint; }

  // Set by the director; plugins use the functions above.
  std::span<void*> columns;
  std::span<void*> slots;
  std::function<Signal()> make_resume;
  std::function<Signal()> make_eviction;
  std::function<void(Nanos)> wake_in;
};

}  // namespace llmd::schedule
