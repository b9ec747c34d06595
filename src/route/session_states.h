#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace llmd::route {

/// Where a request is. Everything from kReceiving on has a pinned pipeline; from kForwarded on it
/// has been committed: the ledger is charged and on_end hooks are owed.
enum class State : uint8_t {
  kIdle,        // no request, or the last one is finished
  kReceiving,   // head seen, body arriving
  kWaiting,     // admission answered "suspended"
  kProducing,   // a producer answered "suspended"; also between two tries
  kForwarded,   // sent to an endpoint, its answer has not begun
  kResponding,  // the answer is passing through
};
inline constexpr size_t kStates = 6;

enum class Event : uint8_t {
  kHeaders,
  kBody,
  kEnd,
  kResume,
  kDeadline,
  kDrain,
  kResponseHeaders,
  kResponseBody,
  kResponseEnd,
  kUpstreamFailed,
  kAbort,
  kEvict,
  kRefuse,
};
inline constexpr size_t kEvents = 13;

/// What an event means in a state.
enum class Rule : uint8_t {
  kIllegal,  // a bug of the caller: counted, ignored
  kIgnored,  // late or without effect: nothing happens
  kHandled,
};

/// The table: one row a state, one column an event, in the order of the enums.
inline constexpr std::array<std::array<Rule, kEvents>, kStates> kRules = [] {
  constexpr Rule x = Rule::kIllegal;
  constexpr Rule o = Rule::kIgnored;
  constexpr Rule y = Rule::kHandled;
  return std::array<std::array<Rule, kEvents>, kStates>{{
      //  headers body end resume deadline drain resp-head resp-body resp-end up-fail abort evict
      //  refuse
      /* idle      */ {{y, x, x, o, o, o, x, x, x, o, o, o, x}},
      /* receiving */ {{x, y, y, o, o, o, x, x, x, x, y, o, y}},
      /* waiting   */ {{x, x, x, y, y, y, x, x, x, x, y, o, y}},
      /* producing */ {{x, x, x, y, y, o, x, x, x, x, y, o, y}},
      /* forwarded */ {{x, x, x, o, o, o, y, x, x, y, y, y, y}},
      /* responding*/ {{x, x, x, o, o, o, x, y, y, y, y, y, y}},
  }};
}();

constexpr Rule rule(State state, Event event) {
  return kRules[static_cast<size_t>(state)][static_cast<size_t>(event)];
}

/// Whether `event` is to be handled now; illegal pairs are soft checks.
bool accept(State state, Event event);

std::string_view state_name(State state);
std::string_view event_name(Event event);

}  // namespace llmd::route
