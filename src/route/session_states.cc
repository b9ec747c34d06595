#include "session_states.h"

#include "base/check.h"
#include "base/log.h"

namespace llmd::route {

bool accept(State state, Event event) {
  const Rule r = rule(state, event);
  if (r == Rule::kHandled) return true;
  if (!SOFT_CHECK(r != Rule::kIllegal))
    log::debug("session event out of order",
               {{"state", state_name(state)}, {"event", event_name(event)}});
  return false;
}

std::string_view state_name(State state) {
  constexpr std::array<std::string_view, kStates> names = {"idle",      "receiving", "waiting",
                                                           "producing", "forwarded", "responding"};
  return names[static_cast<size_t>(state)];
}

std::string_view event_name(Event event) {
  constexpr std::array<std::string_view, kEvents> names = {"headers",
                                                           "body",
                                                           "end",
                                                           "resume",
                                                           "deadline",
                                                           "drain",
                                                           "response-headers",
                                                           "response-body",
                                                           "response-end",
                                                           "upstream-failed",
                                                           "abort",
                                                           "evict",
                                                           "refuse"};
  return names[static_cast<size_t>(event)];
}

}  // namespace llmd::route
