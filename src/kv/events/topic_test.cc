#include "kv_events/topic.h"

#include <gtest/gtest.h>

namespace llmd::kv_events {
namespace {

TEST(ParseTopic, SplitsAtTheFirstTwoMarks) {
  struct Case {
    const char *topic, *pod, *model;
  };
  const Case cases[] = {
      {"kv@10.0.0.1:8000@test-model", "10.0.0.1:8000", "test-model"},
      {"kv@[fd00::5]:8000@meta/Llama@2024", "[fd00::5]:8000", "meta/Llama@2024"},
      {"kv@SHARED_STORAGE@m", "SHARED_STORAGE", "m"},
      {"kv@pod@", "pod", ""},
      {"kv@pod", "kv@pod", ""},
      {"kv-events", "kv-events", ""},
      {"", "", ""},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(parse_topic(c.topic).pod, c.pod) << c.topic;
    EXPECT_EQ(parse_topic(c.topic).model, c.model) << c.topic;
  }
}

}  // namespace
}  // namespace llmd::kv_events
