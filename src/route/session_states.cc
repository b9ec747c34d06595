#include "session_states.h"

namespace llmd::route {

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
