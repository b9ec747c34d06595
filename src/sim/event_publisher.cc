#include "event_publisher.h"

#include "base/check.h"

#include <algorithm>
#include <array>

namespace llmd::sim {
namespace {

using kv_events::ZmqMessage;
using kv_events::ZmqSocket;

constexpr int kQuestionsAtOnce = 16;
constexpr uint64_t kEnd = UINT64_MAX;  // the sequence that ends an answer

std::array<char, 8> big_endian(uint64_t number) {
  std::array<char, 8> bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (56 - 8 * i));
  return bytes;
}

uint64_t from_big_endian(std::string_view bytes) {
  uint64_t number = 0;
  for (const char c : bytes) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}

ZmqSocket::Options replay_options(const KvEventsConfig& config) {
  // An answer fits: nothing of it is dropped on the way.
  return {.send_messages_max = static_cast<int>(config.replay_queue_size) + 16,
          .message_bytes_max = 64};
}

}  // namespace

EventPublisher::EventPublisher(io::Loop& loop, const ModelClock& clock, const ServerConfig& config,
                               kv_events::ZmqContext& zmq)
    : loop_(loop),
      clock_(clock),
      config_(config),
      zmq_(zmq),
      publisher_(zmq, ZMQ_PUB, {.send_messages_max = kWaitingMax}),
      chain_(config.hash_seed),
      writer_(config.kv_events.format, config.kv_events.whole_hashes),
      timer_(loop) {}

EventPublisher::~EventPublisher() = default;

Status EventPublisher::start(std::string topic, const Engine& engine) {
  const KvEventsConfig& events = config_.kv_events;
  topic_ = std::move(topic);
  engine_ = &engine;
  LLMD_TRY(events.bind ? publisher_.bind(events.endpoint) : publisher_.connect(events.endpoint));
  if (events.replay_endpoint.empty()) return {};
  replayer_.emplace(zmq_, ZMQ_ROUTER, replay_options(events));
  LLMD_TRY(replayer_->bind(events.replay_endpoint));
  replay_watch_.emplace(loop_, *replayer_, *this);
  return {};
}

std::string EventPublisher::endpoint() const {
  return config_.kv_events.bind ? publisher_.bound_endpoint() : config_.kv_events.endpoint;
}

std::string EventPublisher::replay_endpoint() const {
  return replayer_ ? replayer_->bound_endpoint() : "";
}

const Digest& EventPublisher::digest_of(uint64_t key) const {
  const auto found = digests_.find(key);
  CHECK(found != digests_.end());
  return found->second;
}

/// A message may end only behind a store: removals stay with the store that they make room for.
void EventPublisher::on_removed(uint64_t key) {
  if (last_ == Last::kStored && writer_.count() >= config_.kv_events.batch_size) end_batch();
  writer_.removed(digest_of(key));
  digests_.erase(key);
  last_ = Last::kRemoved;
  ++counters_.blocks_removed;
  --counters_.blocks_resident;
}

void EventPublisher::on_stored(const Stored& run) {
  if (last_ == Last::kStored && writer_.count() >= config_.kv_events.batch_size) end_batch();
  const Adapter* adapter = run.owner ? &engine_->adapters()[run.owner - 1] : nullptr;
  BlockExtras extras;
  if (adapter) extras.lora_name = adapter->name, extras.lora_path = adapter->path;
  if (!run.parent) extras.cache_salt = run.cache_salt;
  const size_t block_tokens = run.tokens.size() / run.keys.size();
  const Digest parent = run.parent ? digest_of(run.parent) : chain_.root();
  run_.clear();
  for (size_t i = 0; i < run.keys.size(); ++i) {
    const auto tokens = run.tokens.subspan(i * block_tokens, block_tokens);
    run_.push_back(chain_.next(i ? run_.back() : parent, tokens, extras));
    extras.cache_salt = {};
    digests_.emplace(run.keys[i], run_.back());
  }
  writer_.stored({.parent = run.parent ? &parent : nullptr,
                  .blocks = run_,
                  .tokens = run.tokens,
                  .block_tokens = static_cast<uint32_t>(block_tokens),
                  .lora_id = run.owner,
                  .lora_name = extras.lora_name,
                  .cache_salt = run.cache_salt});
  last_ = Last::kStored;
  counters_.blocks_stored += run.keys.size();
  counters_.blocks_resident += run.keys.size();
  loop_.at_turn_end(*this);
}

void EventPublisher::on_cleared() {
  if (last_ != Last::kCleared) writer_.cleared();
  last_ = Last::kCleared;
  digests_.clear();
  ++counters_.clears;
  counters_.blocks_resident = 0;
}

void EventPublisher::end_batch() {
  if (writer_.count() == 0) return;
  const double now = std::chrono::duration<double>(clock_.real().wall().time_since_epoch()).count();
  last_ = Last::kNone;
  const auto rank = static_cast<uint32_t>(std::max(0, config_.data_parallel_rank));
  publish({next_sequence_++, writer_.take_batch(now, rank), {}});
}

/// Decides what happens to a message. The draws depend on its number alone.
void EventPublisher::publish(Message message) {
  const KvEventsConfig& events = config_.kv_events;
  ++counters_.revision;
  ++counters_.messages;
  if (replayer_) {
    past_.push_back(message);
    while (past_.size() > events.replay_queue_size) past_.pop_front();
  }
  Draws draws(static_cast<uint64_t>(config_.seed) ^ 0x6b76, message.sequence);
  const auto hit = [&](uint32_t rate) { return draws.between(1, 100) <= int64_t(rate); };
  const bool lost = hit(events.loss_rate), twice = hit(events.duplication_rate),
             late = hit(events.reorder_rate);
  if (lost) {
    ++counters_.lost;
    return;
  }
  if (late && !held_) {
    ++counters_.reordered;
    held_ = std::move(message);
    return;
  }
  if (twice) {
    ++counters_.duplicated;
    deliver(message);
  }
  deliver(std::move(message));
  if (held_) {
    deliver(std::move(*held_));
    held_.reset();
  }
}

void EventPublisher::deliver(Message message) {
  const Nanos delay = config_.kv_events.delay;
  message.due = clock_.now() + delay;
  if (delay.count() == 0 && delayed_.empty()) {
    send(message);
    return;
  }
  if (delayed_.size() >= kDelayedMax) {
    delayed_.pop_front();
    ++counters_.dropped;
  }
  delayed_.push_back(std::move(message));
  if (!timer_.armed()) timer_.arm(clock_.until(delayed_.front().due), [this] { send_due(); });
}

void EventPublisher::send_due() {
  while (!delayed_.empty() && delayed_.front().due <= clock_.now()) {
    send(delayed_.front());
    delayed_.pop_front();
  }
  if (!delayed_.empty()) timer_.arm(clock_.until(delayed_.front().due), [this] { send_due(); });
}

void EventPublisher::send(const Message& message) {
  const auto sequence = big_endian(message.sequence);
  publisher_.send({topic_, {sequence.data(), sequence.size()}, message.payload});
}

/// Questions are [subscriber, "", sequence to begin with]; others are ignored.
bool EventPublisher::read_some(ZmqSocket& socket) {
  for (int i = 0; i < kQuestionsAtOnce; ++i) {
    ZmqMessage question;
    if (!socket.receive(question)) return false;
    if (question.size() == 3 && question.frame(1).empty() && question.frame(2).size() == 8)
      answer(question.frame(0), from_big_endian(question.frame(2)));
  }
  return true;
}

void EventPublisher::answer(std::string_view subscriber, uint64_t from) {
  ++counters_.replays;
  ++counters_.revision;
  for (const Message& message : past_) {
    if (message.sequence < from) continue;
    const auto sequence = big_endian(message.sequence);
    replayer_->send({subscriber, "", topic_, {sequence.data(), sequence.size()}, message.payload});
  }
  const auto end = big_endian(kEnd);
  replayer_->send({subscriber, "", "", {end.data(), end.size()}, ""});
  replay_watch_->wake();
}

}  // namespace llmd::sim
