#pragma once

#include "base/clock.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::bench {

/// Reads a streamed chat or completion answer as a client would: notes when the first text arrived
/// and collects what was said. A role-only event, an event with empty content and the usage event
/// are not text.
class ChatStream {
 public:
  /// More bytes of the answer, cut anywhere; `now` is when they arrived.
  void feed(std::string_view bytes, TimePoint now);

  /// When the first non-empty content arrived.
  std::optional<TimePoint> first_content() const { return first_content_; }
  /// When the latest content arrived.
  TimePoint last_content() const { return last_content_; }
  /// Events that carried content.
  int64_t content_events() const { return content_events_; }
  /// True after "data: [DONE]".
  bool done() const { return done_; }
  /// True when an event was not JSON or was an error object.
  bool failed() const { return failed_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  int64_t completion_tokens() const { return completion_tokens_; }

 private:
  void on_event(std::string_view data, TimePoint now);

  std::string line_;
  std::optional<TimePoint> first_content_;
  TimePoint last_content_{};
  int64_t content_events_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  bool done_ = false;
  bool failed_ = false;
};

}  // namespace llmd::bench
