#include "publisher_stream.h"

#include "kv_events/topic.h"

#include <algorithm>
#include <chrono>

namespace llmd::kv_events {

using Step = SequenceTracker::Step;

std::optional<EventMessage> as_message(std::string_view topic, std::string_view sequence,
                                       std::string_view payload) {
  if (sequence.size() < 8) return std::nullopt;
  uint64_t number = 0;
  for (const char c : sequence.substr(0, 8)) number = number << 8 | static_cast<uint8_t>(c);
  return EventMessage{topic, number, payload};
}

PublisherStream::PublisherStream(StreamContext context, Publisher publisher, PodMetrics metrics,
                                 bool can_replay, std::string model)
    : context_(context),
      publisher_(std::move(publisher)),
      tracker_(can_replay),
      model_(std::move(model)),
      metrics_(metrics),
      heard_(context.clock.now()) {
  context_.sink.on_joined(publisher_);
}

void PublisherStream::leave() {
  context_.sink.on_left(publisher_);
}

void PublisherStream::take_model(std::string_view topic) {
  if (topic == topic_) return;
  topic_ = topic;
  if (const Topic parsed = parse_topic(topic); !parsed.model.empty()) model_ = parsed.model;
}

void PublisherStream::lose(uint64_t batches) {
  metrics_.lost.add(static_cast<double>(batches));
  context_.sink.on_lost(publisher_, batches);
}

void PublisherStream::obey(const Step& step) {
  if (step.reset) {
    context_.metrics.resets.add();
    context_.sink.on_reset(publisher_);
  }
  if (step.lost) lose(step.lost);
}

void PublisherStream::apply(const EventMessage& message) {
  if (const auto batch = context_.decoder.decode(message.payload)) return hand_on(*batch);
  context_.metrics.bad_batches.add();
  lose(1);
}

void PublisherStream::hand_on(const Batch& batch) {
  SubscriberMetrics& m = context_.metrics;
  if (batch.unknown) m.unknown.add(batch.unknown);
  if (batch.malformed) {  // one of them may have been a removal
    m.malformed.add(batch.malformed);
    lose(1);
  }
  double counts[3] = {};
  for (const Event& event : batch.events) ++counts[static_cast<size_t>(event.type)];
  if (counts[0] > 0) m.stored.add(counts[0]);
  if (counts[1] > 0) m.removed.add(counts[1]);
  if (counts[2] > 0) m.cleared.add(counts[2]);
  if (!batch.events.empty()) context_.sink.on_batch(publisher_, model_, batch);
}

PublisherStream::Action PublisherStream::live(const EventMessage& message, const Batch* decoded) {
  heard_ = context_.clock.now();
  take_model(message.topic);
  const double published = published_at(message.payload);
  const Step step = tracker_.live(message.sequence, published, heard_);
  obey(step);
  if (step.action != Action::kApply) return step.action;
  decoded ? hand_on(*decoded) : apply(message);
  if (published > 0) {
    const double now = seconds(context_.clock.wall().time_since_epoch());
    context_.metrics.lag.observe(std::max(0.0, now - published));
  }
  return step.action;
}

PublisherStream::Action PublisherStream::connected() {
  return tracker_.connected(context_.clock.now()).action;
}

PublisherStream::Action PublisherStream::replayed(const EventMessage& message) {
  if (!message.topic.empty()) take_model(message.topic);
  const Step step = tracker_.replayed(message.sequence, published_at(message.payload));
  obey(step);
  if (step.action == Action::kApply) apply(message);
  return step.action;
}

void PublisherStream::replay_ended(bool complete) {
  (complete ? context_.metrics.replays : context_.metrics.replays_failed).add();
  obey(tracker_.replay_ended(complete, context_.clock.now()));
}

}  // namespace llmd::kv_events
