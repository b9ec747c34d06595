#pragma once

#include <string_view>

namespace llmd::kv_events {

/// What the topic of a message says: "kv@POD@MODEL". Views into the topic.
struct Topic {
  std::string_view pod;    // "address:port" by convention; the whole topic when it has another form
  std::string_view model;  // may contain '@'; "" when the topic does not tell
};

Topic parse_topic(std::string_view topic);

}  // namespace llmd::kv_events
