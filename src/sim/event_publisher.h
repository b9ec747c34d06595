#pragma once

#include "block_digest.h"
#include "event_writer.h"

#include "io/loop.h"
#include "kv_events/zmq_socket.h"
#include "sim/engine.h"
#include "sim/event_counters.h"
#include "sim/prefix_cache.h"
#include "sim/server.h"

#include <boost/unordered/unordered_flat_map.hpp>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace llmd::sim {

/// Publishes what enters and leaves the cache of one simulated server, as vLLM's engines do: frames
/// topic, sequence from 0 in eight bytes, MessagePack. A message has the events of one turn of the
/// loop, removals before the stores that took their place. A reset is told with the next store, as
/// vLLM tells it with its next step.
///
/// Nothing waits for subscribers: libzmq keeps kWaitingMax messages for each and drops the rest.
/// Threading: the server's loop. Memory: 40 bytes a resident block, and the messages kept for
/// replay.
class EventPublisher final : public CacheListener, public kv_events::ZmqReader, io::TurnTask {
 public:
  /// Requires: loop, clock, config and the context outlive it. `config` may change its rates.
  EventPublisher(io::Loop& loop, const ModelClock& clock, const ServerConfig& config,
                 kv_events::ZmqContext& zmq);
  ~EventPublisher() override;

  /// Opens the sockets. `engine` names the adapters. Errors name the endpoint.
  Status start(std::string topic, const Engine& engine);

  const EventCounters& counters() const { return counters_; }
  const std::string& topic() const { return topic_; }
  /// Where it listens or connects to, and answers; "": nowhere.
  std::string endpoint() const;
  std::string replay_endpoint() const;

  static constexpr int kWaitingMax = 10'000;      // messages per subscriber
  static constexpr size_t kDelayedMax = 100'000;  // messages; the oldest are dropped

 private:
  struct Message {
    uint64_t sequence = 0;
    std::string payload;
    TimePoint due{};
  };

  void on_removed(uint64_t key) override;
  void on_stored(const Stored& run) override;
  void on_cleared() override;
  void at_turn_end() override { end_batch(); }
  bool read_some(kv_events::ZmqSocket& socket) override;

  void end_batch();
  void publish(Message message);
  void deliver(Message message);
  void send_due();
  void send(const Message& message);
  void answer(std::string_view subscriber, uint64_t from);
  const Digest& digest_of(uint64_t key) const;

  io::Loop& loop_;
  const ModelClock& clock_;
  const ServerConfig& config_;
  kv_events::ZmqContext& zmq_;
  kv_events::ZmqSocket publisher_;
  std::optional<kv_events::ZmqSocket> replayer_;
  std::optional<kv_events::ZmqWatch> replay_watch_;
  std::string topic_;
  const Engine* engine_ = nullptr;

  DigestChain chain_;
  boost::unordered_flat_map<uint64_t, Digest> digests_;  // of the resident blocks, by cache key
  std::vector<Digest> run_;
  EventWriter writer_;
  enum class Last : uint8_t { kNone, kRemoved, kStored, kCleared };
  Last last_ = Last::kNone;  // event of the batch under way

  uint64_t next_sequence_ = 0;
  std::deque<Message> past_;     // for replay, the newest last
  std::optional<Message> held_;  // the next one overtakes it
  std::deque<Message> delayed_;
  io::Timer timer_;
  EventCounters counters_;
};

}  // namespace llmd::sim
