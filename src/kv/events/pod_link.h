#pragma once

#include "publisher_stream.h"

#include "io/loop.h"
#include "kv_events/subscriber.h"
#include "kv_events/zmq_socket.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace llmd::kv_events {

/// What the links of a subscriber share.
struct LinkContext {
  io::Loop& loop;
  ZmqContext& zmq;
  StreamContext stream;
  const SubscriberOptions& options;
  std::atomic<int>& replays_left;  // that may run at once, in the whole process
};

inline constexpr int kReplaysMax = 8;

/// The connection to one engine that publishes on a port of its own. While missed events are asked
/// for, what is published live waits in the socket; the message that showed the gap is kept, and
/// has its turn after the answer.
/// Threading: the loop's thread.
class PodLink final : public ZmqReader {
 public:
  static constexpr Nanos kAnswerPause = std::chrono::seconds(2);  // without a word: asked again
  static constexpr Nanos kAnswerMax = std::chrono::minutes(2);
  static constexpr int kAttemptsMax = 3;  // without a word
  /// An engine to which no connection stands by then is told of.
  static constexpr Nanos kFirstConnectionMax = std::chrono::seconds(15);

  PodLink(LinkContext context, const PublisherSpec& spec);
  ~PodLink();

  /// Connects. Errors name the endpoint.
  Status start();
  void leave() { stream_.leave(); }

 private:
  struct Answer {
    Answer(io::Loop& loop, ZmqContext& zmq, const ZmqSocket::Options& options, ZmqReader& reader)
        : socket(zmq, ZMQ_DEALER, options), watch(loop, socket, reader) {}
    ZmqSocket socket;
    ZmqWatch watch;
  };

  bool read_some(ZmqSocket& socket) override;
  bool read_live();
  bool read_connections();
  void tell_unreachable();
  bool read_answer();
  void take_live(ZmqMessage message);
  void begin_replay();
  void ask();
  void on_silence();
  void end_replay(bool complete);

  LinkContext context_;
  const PublisherSpec spec_;
  PublisherStream stream_;
  bool was_connected_ = false;
  io::Timer first_connection_;

  std::optional<ZmqMessage> held_;
  bool in_budget_ = false;
  int attempts_ = 0;
  TimePoint give_up_at_{};
  io::Timer timer_;

  ZmqSocket live_;
  ZmqSocket connections_;
  std::unique_ptr<ZmqWatch> live_watch_, connections_watch_;
  std::unique_ptr<Answer> answer_;
};

}  // namespace llmd::kv_events
