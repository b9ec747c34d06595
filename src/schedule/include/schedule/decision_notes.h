#pragma once

#include "schedule/stopwatch.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// What a decision leaves for those who ask about it later. Spans are in the request's arena.
namespace llmd::schedule {

/// The work between a request's last byte and its endpoint, as ARCHITECTURE.md §3 divides it.
enum class Stage : uint8_t {
  kParse,     // the end of the body, the model, request hooks
  kAdmit,     // admission, waiting included
  kLocate,    // endpoints, their metrics, screeners
  kProduce,   // producers, waiting included
  kSchedule,  // admitters, filters, scorers, pickers
  kCommit,    // hooks before the request leaves
};
inline constexpr size_t kStages = 6;

/// A turn among equals that a picker took for its first target; zeros: it keeps no turns.
struct Turn {
  uint64_t taken = 0;
  uint64_t before = 0;  // the endpoint's turn before; 0: it never had one
};

/// Why a request had to wait for its turn, as things were when it came to its queue.
struct WaitNote {
  enum class Why : uint8_t {
    kNone,           // it did not wait
    kNoEndpoint,     // the pool is empty
    kCeiling,        // the pool is as full as it may be for the request's band
    kHigherCeiling,  // … for a higher band, which shuts those below it
    kHigherWaits,    // requests of a higher band wait
    kFlowWaits,      // … of its own flow
    kBandWaits,      // … of other flows of its band
    kOthersCome,     // none of these: others were coming in at the same moment
  };
  uint32_t ahead_in_flow = 0;  // requests that go before it: of its flow,
  uint32_t ahead_in_band = 0;  // of its band, its flow included; estimates where queues are long
  float expected_s = 0;        // wait, seconds; 0: not known
  float saturation = 0;
  float ceiling = 0;  // of its band
  Why why = Why::kNone;
};

/// What one profile adds to its ProfileResult.
struct ProfileNotes {
  std::span<uint16_t> passed;  // by candidate: how many filters it passed; empty without filters
  std::span<double> scores;    // scorer by scorer, each parallel to ProfileResult::scored; as given
  std::span<float> seconds;    // of each filter, each scorer and the picker, in this order
  Turn turn;
};

/// Notes of one try. prepare() makes room for them where RequestContext::notes is set.
struct DecisionNotes {
  static constexpr float kFailed = -1;

  /// Adds the time since the last lap to a stage.
  void lap(Stage stage) { stages[static_cast<size_t>(stage)] += static_cast<float>(watch.lap()); }

  std::array<float, kStages> stages{};  // seconds
  float handler = 0;                    // seconds of the profile handler, within kSchedule
  std::span<float> producers;           // seconds each; kFailed: failed, or late
  std::span<ProfileNotes> profiles;     // by profile index of the pipeline
  Turn turn;                            // of the picker that ran last
  WaitNote wait;
  Stopwatch watch;
};

}  // namespace llmd::schedule
