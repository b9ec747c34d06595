#include "pod_link.h"

#include "base/log.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstring>

namespace llmd::kv_events {
namespace {

using Action = PublisherStream::Action;

constexpr int kMessagesAtOnce = 64;
constexpr Nanos kBudgetPause = std::chrono::milliseconds(100);

ZmqSocket::Options socket_options(const SubscriberOptions& options) {
  return {.receive_messages_max = options.waiting_messages_max,
          .message_bytes_max = BatchDecoder::kBatchBytesMax};
}

std::array<char, 8> big_endian(uint64_t number) {
  std::array<char, 8> bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (56 - 8 * i));
  return bytes;
}

Publisher publisher_of(const PublisherSpec& spec) {
  return {.pod = spec.pod, .owner = spec.owner, .rank = {}, .state = nullptr};
}

/// A message of an answer: [topic, sequence, payload], of older engines without the topic; an empty
/// frame may come first. The payload of the last one is empty.
std::optional<EventMessage> as_answer(const ZmqMessage& message) {
  if (message.size() > ZmqMessage::kFramesMax) return std::nullopt;
  const size_t skip = message.size() > 2 && message.frame(0).empty();
  switch (message.size() - skip) {
    case 2:
      return as_message({}, message.frame(skip), message.frame(skip + 1));
    case 3:
      return as_message(message.frame(skip), message.frame(skip + 1), message.frame(skip + 2));
    default:
      return std::nullopt;
  }
}

}  // namespace

PodLink::PodLink(LinkContext context, const PublisherSpec& spec)
    : context_(context),
      spec_(spec),
      stream_(context.stream, publisher_of(spec), context.stream.metrics.pod(spec.pod),
              !spec.replay_endpoint.empty(), spec.model),
      first_connection_(context.loop),
      timer_(context.loop),
      live_(context.zmq, ZMQ_SUB, socket_options(context.options)),
      connections_(context.zmq, ZMQ_PAIR) {}

PodLink::~PodLink() {
  if (held_) context_.stream.metrics.waiting.add(-1);
  if (in_budget_) ++context_.replays_left;
}

Status PodLink::start() {
  // A name of its own: that of a link before, at the same place, is free only when libzmq is done
  // with it.
  static std::atomic<uint64_t> links{0};
  const std::string events = fmt::format("inproc://connections-{}", ++links);
  live_.monitor(events, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  LLMD_TRY(connections_.connect(events));
  live_.subscribe(context_.options.topic_filter);
  LLMD_TRY(live_.connect(spec_.endpoint));
  connections_watch_ = std::make_unique<ZmqWatch>(context_.loop, connections_, *this);
  live_watch_ = std::make_unique<ZmqWatch>(context_.loop, live_, *this);
  first_connection_.arm(kFirstConnectionMax, [this] { tell_unreachable(); });
  return {};
}

void PodLink::tell_unreachable() {
  context_.stream.metrics.error(spec_.pod, "connect");
  log::warn(
      "an engine cannot be heard: it publishes no KV events here, or they do not get through; the "
      "connection is still sought",
      {{"endpoint", spec_.id}, {"address", spec_.endpoint}});
}

bool PodLink::read_some(ZmqSocket& socket) {
  if (&socket == &live_) return read_live();
  if (&socket == &connections_) return read_connections();
  return read_answer();
}

bool PodLink::read_connections() {
  ZmqMessage event;
  if (!connections_.receive(event)) return false;
  first_connection_.cancel();
  if (was_connected_) stream_.metrics().reconnections.add();
  was_connected_ = true;
  if (!stream_.replaying() && stream_.connected() == Action::kReplay) begin_replay();
  return true;
}

bool PodLink::read_live() {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    ZmqMessage message;
    if (stream_.replaying() || !live_.receive(message)) return false;
    stream_.metrics().messages.add();
    take_live(std::move(message));
  }
  return true;
}

void PodLink::take_live(ZmqMessage message) {
  const auto read = message.size() == 3
                        ? as_message(message.frame(0), message.frame(1), message.frame(2))
                        : std::nullopt;
  if (!read) {
    context_.stream.metrics.bad_frames.add();
    return;
  }
  if (stream_.live(*read) != Action::kReplay) return;
  held_ = std::move(message);
  context_.stream.metrics.waiting.add(1);
  begin_replay();
}

void PodLink::begin_replay() {
  if (!in_budget_) {
    if (--context_.replays_left < 0) {
      ++context_.replays_left;
      context_.stream.metrics.error(spec_.pod, "replay-capacity");
      timer_.arm(kBudgetPause, [this] { begin_replay(); });
      return;
    }
    in_budget_ = true;
  }
  attempts_ = 0;
  give_up_at_ = context_.stream.clock.now() + kAnswerMax;
  ask();
}

void PodLink::ask() {
  answer_ = std::make_unique<Answer>(context_.loop, context_.zmq, socket_options(context_.options),
                                     *this);
  const auto from = big_endian(stream_.replay_from());
  if (!answer_->socket.connect(spec_.replay_endpoint) ||
      !answer_->socket.send({"", {from.data(), from.size()}})) {
    context_.stream.metrics.error(spec_.pod, "replay-connect");
    end_replay(false);
    return;
  }
  answer_->watch.wake();
  timer_.arm(kAnswerPause, [this] { on_silence(); });
}

void PodLink::on_silence() {
  if (++attempts_ < kAttemptsMax && context_.stream.clock.now() < give_up_at_) return ask();
  context_.stream.metrics.error(spec_.pod, "replay-no-progress");
  end_replay(false);
}

bool PodLink::read_answer() {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    ZmqMessage message;
    if (!answer_->socket.receive(message)) return false;
    const auto read = as_answer(message);
    if (!read) {
      context_.stream.metrics.bad_frames.add();
      continue;
    }
    if (read->payload.empty()) {
      end_replay(true);
      return false;
    }
    if (context_.stream.clock.now() > give_up_at_) {
      context_.stream.metrics.error(spec_.pod, "replay-incomplete");
      end_replay(false);
      return false;
    }
    attempts_ = 0;
    timer_.arm(kAnswerPause, [this] { on_silence(); });
    if (stream_.replayed(*read) == Action::kReplay) {
      ask();
      return false;
    }
  }
  return true;
}

void PodLink::end_replay(bool complete) {
  timer_.cancel();
  answer_.reset();
  if (in_budget_) ++context_.replays_left;
  in_budget_ = false;
  stream_.replay_ended(complete);
  if (held_) {
    ZmqMessage message = std::move(*held_);
    held_.reset();
    context_.stream.metrics.waiting.add(-1);
    take_live(std::move(message));
  }
  if (!stream_.replaying() && live_watch_) live_watch_->wake();
}

}  // namespace llmd::kv_events
