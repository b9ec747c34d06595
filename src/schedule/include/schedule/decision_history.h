#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "fleet/endpoint.h"
#include "schedule/decision_notes.h"
#include "schedule/outline.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The last decisions of a loop, kept so that somebody can ask why they fell as they did.
namespace llmd::schedule {

struct RequestContext;
struct Pipeline;

/// How one try of a request ended.
struct TryOutcome {
  TimePoint at{};
  uint16_t number = 1;                      // of the try, from 1
  std::string_view after;                   // how the try before it failed; "": there was none
  const fleet::Endpoint* target = nullptr;  // where the request is; null: the client is answered
  uint16_t status = 0;                      // of that answer; 0: the client had left
  Code code = Code::kUnknown;               // the same
  std::string_view error;
  std::string_view drop_reason;
  bool decided = true;  // false: what came of tries that are kept: who served, or the answer
};

/// An endpoint as it was when a request was decided.
struct CandidateNote {
  const fleet::Endpoint* endpoint = nullptr;
  int32_t waiting = 0;
  int32_t running = 0;
  float kv_usage = 0;     // fraction, 0..1
  float metrics_age = 0;  // seconds since they were scraped; negative: never
};

/// The plain numbers of a kept decision.
struct DecisionFacts {
  TimePoint at{};
  TimePoint received{};                     // the request's head
  const fleet::Endpoint* target = nullptr;  // null: refused
  uint64_t request_bytes = 0;
  std::array<float, kStages> stages{};  // seconds
  float handler = 0;                    // seconds
  WaitNote wait;
  Code code = Code::kUnknown;
  int32_t priority = 0;
  uint32_t candidates = 0;
  uint16_t status = 0;
  uint16_t number = 1;
  uint16_t primary = UINT16_MAX;  // profile
  bool decided = true;
  bool cut = false;  // too large to be kept whole: candidates and profiles are left out
};

/// A score as it counts: below 0 and NaN as 0, above 1 as 1.
inline double clamp_score(double score) {
  return score > 0 ? std::min(score, 1.0) : 0;
}

/// A kept decision as it is read back. Endpoints are alive as long as `snapshot` is held.
struct Decision : DecisionFacts {
  struct Profile {
    bool ran = false;
    bool failed = false;
    Turn turn;
    std::span<const uint32_t> targets;  // candidates, the preferred first
    std::span<const uint32_t> scored;   // those that reached the scorers
    std::span<const double> totals;     // parallel to `scored`
    std::span<const double> scores;     // scorer by scorer, each parallel to `scored`; unclamped
    std::span<const uint16_t> passed;   // by candidate; empty without filters
    std::span<const float> seconds;     // filters, scorers, the picker
  };

  std::string_view request_id, path, model, target_model, after, error, drop_reason;
  std::span<const CandidateNote> candidate_notes;
  std::span<const float> producers;  // seconds each; DecisionNotes::kFailed
  std::vector<Profile> profiles;     // by index of the outline
};

/// A copy of a kept decision. Threading: any, one at a time.
struct KeptDecision {
  TimePoint at{};
  std::vector<std::byte> bytes;
  OutlinePtr outline;           // null: there was no pipeline
  fleet::SnapshotPtr snapshot;  // pins the endpoints

  /// Views into `bytes`.
  Decision read() const;
};

struct DecisionQuery {
  std::string request_id;  // "": all requests, and of each decision the facts and texts only
  size_t limit = 0;        // decisions, the newest
};

/// The last decisions of one loop: numbers and short texts, copied into memory that was taken at
/// the start. Bounded twice: by the number of decisions and by kBytesEach for each of them, which
/// they share; large decisions (many endpoints) leave room for fewer, and one that needs more than
/// a quarter of it is cut. What they name is pinned instead of copied: the outline of the pipeline
/// and the list of endpoints, which change rarely and which most decisions share.
/// Cost of add(): a copy of about 60 bytes per candidate and 8 per score; no allocation.
/// Threading: one loop.
class DecisionHistory {
 public:
  static constexpr size_t kBytesEach = 4096;

  /// Requires: decisions_max > 0.
  explicit DecisionHistory(size_t decisions_max);

  /// Keeps what `context` and its notes say of a try. `pipeline` may be null. Texts are cut to
  /// kTextBytesMax.
  void add(const RequestContext& context, const Pipeline* pipeline, const TryOutcome& outcome);

  /// The newest that match, the newest first.
  std::vector<KeptDecision> find(const DecisionQuery& query) const;

  static constexpr size_t kTextBytesMax = 256;

 private:
  struct Entry {
    size_t begin = 0;  // in bytes_
    size_t size = 0;
    size_t head = 0;  // up to the end of the texts
    TimePoint at{};
    OutlinePtr outline;
    fleet::SnapshotPtr snapshot;
  };

  const Entry& entry(uint64_t number) const { return entries_[number % entries_.size()]; }
  size_t make_room(size_t bytes);

  std::vector<Entry> entries_;
  const size_t capacity_;  // bytes
  const std::unique_ptr<std::byte[]> bytes_;
  size_t free_ = 0;  // where the next entry begins
  // Entries are numbered as they come; those from first_ to next_ are kept.
  uint64_t first_ = 0;
  uint64_t next_ = 0;
};

}  // namespace llmd::schedule
