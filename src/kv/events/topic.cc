#include "kv_events/topic.h"

namespace llmd::kv_events {

Topic parse_topic(std::string_view topic) {
  const size_t first = topic.find('@');
  const size_t second = first == topic.npos ? topic.npos : topic.find('@', first + 1);
  if (second == topic.npos) return {topic, {}};
  return {topic.substr(first + 1, second - first - 1), topic.substr(second + 1)};
}

}  // namespace llmd::kv_events
