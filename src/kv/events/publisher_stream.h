#pragma once

#include "metrics.h"

#include "base/clock.h"
#include "kv_events/batch_decoder.h"
#include "kv_events/event_sink.h"
#include "kv_events/sequence_tracker.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::kv_events {

/// The frames of a message, as far as they are one.
struct EventMessage {
  std::string_view topic;
  uint64_t sequence = 0;
  std::string_view payload;
};

/// Of a live message: topic, sequence of at least eight bytes, payload. Nothing for other frames.
std::optional<EventMessage> as_message(std::string_view topic, std::string_view sequence,
                                       std::string_view payload);

/// What the streams of one thread share.
struct StreamContext {
  BatchDecoder& decoder;
  EventSink& sink;
  SubscriberMetrics& metrics;
  const Clock& clock;
};

/// One publisher: its numbers are checked, and what follows is decoded and handed on.
/// Threading: one thread.
class PublisherStream {
 public:
  PublisherStream(StreamContext context, Publisher publisher, PodMetrics metrics, bool can_replay,
                  std::string model);
  PublisherStream(const PublisherStream&) = delete;
  PublisherStream& operator=(const PublisherStream&) = delete;

  using Action = SequenceTracker::Step::Action;
  /// kReplay: ask, then give the message again. `decoded`: its batch, where that is known already.
  Action live(const EventMessage& message, const Batch* decoded = nullptr);
  /// The numbers before this one were other publishers'.
  void skip_to(uint64_t sequence) { tracker_.skip_to(sequence); }
  Action connected();
  /// An answer's message; an empty topic does not tell the model. kReplay: ask again.
  Action replayed(const EventMessage& message);
  void replay_ended(bool complete);
  uint64_t replay_from() const { return tracker_.replay_from(); }
  bool replaying() const { return tracker_.replaying(); }

  const Publisher& publisher() const { return publisher_; }
  TimePoint heard() const { return heard_; }
  PodMetrics& metrics() { return metrics_; }
  /// Takes leave of the sink.
  void leave();

 private:
  void take_model(std::string_view topic);
  void obey(const SequenceTracker::Step& step);
  void lose(uint64_t batches);
  void apply(const EventMessage& message);
  void hand_on(const Batch& batch);

  StreamContext context_;
  Publisher publisher_;
  SequenceTracker tracker_;
  std::string model_;
  std::string topic_;  // the last, so that it is read once
  PodMetrics metrics_;
  TimePoint heard_{};
};

}  // namespace llmd::kv_events
