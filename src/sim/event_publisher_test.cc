#include "event_publisher.h"

#include "kv_events/batch_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace llmd::sim {
namespace {

using kv_events::ZmqMessage;
using kv_events::ZmqSocket;
using Type = kv_events::Event::Type;

uint64_t number_of(std::string_view bytes) {
  uint64_t number = 0;
  for (const char c : bytes) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}

std::string big_endian(uint64_t number) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

/// The messages of a stream, in the order of arrival.
struct Received {
  std::vector<uint64_t> sequences;
  std::vector<std::string> payloads;
};

/// A publisher with a cache of its own, and one who listens.
struct Bench {
  explicit Bench(KvEventsConfig events = {}) : config(config_of(std::move(events))) {
    engine.load_adapter("adapter", "path");
    EXPECT_TRUE(publisher.start("kv@10.0.0.1:8000@m", engine));
    listener.subscribe("kv@");
    EXPECT_TRUE(listener.connect(publisher.endpoint()));
    asker = std::make_unique<ZmqSocket>(zmq, ZMQ_DEALER);
    EXPECT_TRUE(asker->connect(publisher.replay_endpoint()));
  }

  static ServerConfig config_of(KvEventsConfig events) {
    events.endpoint = events.replay_endpoint = "tcp://127.0.0.1:0";
    events.bind = true;
    ServerConfig config;
    config.kv_events = std::move(events);
    config.hash_seed = "0";
    return config;
  }

  /// Lets a prompt of `blocks` blocks pass through the cache; `first` tells prompts apart.
  void prompt(uint32_t first, size_t blocks, uint32_t owner = 0, std::string_view salt = {}) {
    std::vector<uint32_t> tokens(blocks * 8);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<uint32_t>(i);
    std::vector<uint64_t> keys;
    cache.block_keys(tokens, owner ? "adapter" : "m", keys, salt);
    ASSERT_TRUE(cache.acquire(keys, tokens, owner, salt).stored);
    cache.release(keys);
  }
  void turn() { loop.turn(Nanos(0)); }
  /// A message of its own.
  void publish() {
    prompt(fresh += 100, 1);
    turn();
  }

  /// Publishes until the listener hears it: who joins late misses what was before.
  void join() {
    ZmqMessage message;
    while (!listener.receive(message)) {
      publish();
      loop.turn(std::chrono::milliseconds(1));
    }
    while (number_of(message.frame(1)) + 1 < publisher.counters().messages)
      if (!listener.receive(message)) loop.turn(std::chrono::milliseconds(1));
  }
  Received hear(size_t n) {
    Received all;
    while (all.sequences.size() < n) {
      ZmqMessage message;
      if (!listener.receive(message)) {
        loop.turn(std::chrono::milliseconds(1));
        continue;
      }
      EXPECT_EQ(message.size(), 3u);
      EXPECT_EQ(message.frame(0), "kv@10.0.0.1:8000@m");
      EXPECT_EQ(message.frame(1).size(), 8u);
      all.sequences.push_back(number_of(message.frame(1)));
      all.payloads.emplace_back(message.frame(2));
    }
    return all;
  }
  /// What is replayed from `from` on.
  Received ask(uint64_t from) {
    EXPECT_TRUE(asker->send({"", big_endian(from)}));
    Received all;
    for (;;) {
      ZmqMessage message;
      if (!asker->receive(message)) {
        loop.turn(std::chrono::milliseconds(1));
        continue;
      }
      EXPECT_EQ(message.size(), 4u);
      EXPECT_EQ(message.frame(0), "");
      if (message.frame(3).empty()) {
        EXPECT_EQ(message.frame(1), "");
        EXPECT_EQ(number_of(message.frame(2)), UINT64_MAX);
        return all;
      }
      EXPECT_EQ(message.frame(1), "kv@10.0.0.1:8000@m");
      all.sequences.push_back(number_of(message.frame(2)));
      all.payloads.emplace_back(message.frame(3));
    }
  }

  uint32_t fresh = 1 << 20;
  ManualClock clock;
  ModelClock model_clock{clock};
  io::Loop loop{0, 1, clock};
  ServerConfig config;
  kv_events::ZmqContext zmq;
  EventPublisher publisher{loop, model_clock, config, zmq};
  Engine engine{{.model = "m"}};
  PrefixCache cache{4, 8, &publisher};
  ZmqSocket listener{zmq, ZMQ_SUB};
  std::unique_ptr<ZmqSocket> asker;
};

/// The events of a message, a word each: stored with the parent's and the blocks' numbers.
std::vector<std::string> events_of(const std::string& payload) {
  kv_events::BatchDecoder decoder(**kv_events::find_adapter("vllm"));
  const auto batch = decoder.decode(payload);
  if (!batch || batch->unknown + batch->malformed) return {"unreadable"};
  std::vector<std::string> words;
  for (const auto& event : batch->events)
    words.push_back(event.type == Type::kCleared ? "cleared"
                    : event.type == Type::kRemoved
                        ? fmt::format("-{}", event.blocks.size())
                        : fmt::format("+{}{}", event.blocks.size(), event.parent ? " child" : ""));
  return words;
}

using Words = std::vector<std::string>;

TEST(EventPublisher, TellsOfATurnInOneMessageRemovalsFirst) {
  Bench bench;
  bench.prompt(0, 2);
  bench.turn();
  bench.prompt(0, 4);
  bench.turn();
  bench.prompt(0, 4);  // all cached
  bench.turn();
  bench.prompt(1000, 3);
  bench.turn();
  const Received all = bench.ask(0);
  ASSERT_EQ(all.sequences, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_EQ(events_of(all.payloads[0]), Words{"+2"});
  EXPECT_EQ(events_of(all.payloads[1]), Words{"+2 child"});
  // The reader joins removals that follow one another.
  EXPECT_EQ(events_of(all.payloads[2]), (Words{"-3", "+3"}));
  EXPECT_EQ(bench.publisher.counters().blocks_stored, 7u);
  EXPECT_EQ(bench.publisher.counters().blocks_removed, 3u);
  EXPECT_EQ(bench.publisher.counters().blocks_resident, 4u);
}

TEST(EventPublisher, GivesBlocksTheHashesOfTheirTokens) {
  Bench bench;
  bench.prompt(1, 2);
  bench.prompt(1, 1, 0, "salt");
  bench.prompt(1, 1, 1);
  bench.turn();
  DigestChain chain("0");
  std::vector<uint32_t> tokens(16);
  for (uint32_t i = 0; i < 16; ++i) tokens[i] = i + 1;
  const auto block = [&](const Digest& parent, size_t i, BlockExtras extras = {}) {
    return chain.next(parent, std::span(tokens).subspan(i * 8, 8), extras);
  };
  const Digest first = block(chain.root(), 0);
  const std::vector<uint64_t> expected = {
      short_hash(first), short_hash(block(first, 1)),
      short_hash(block(chain.root(), 0, {.cache_salt = "salt"})),
      short_hash(block(chain.root(), 0, {.lora_name = "adapter", .lora_path = "path"}))};
  const Received all = bench.ask(0);
  ASSERT_EQ(all.payloads.size(), 1u);
  kv_events::BatchDecoder decoder(**kv_events::find_adapter("vllm"));
  const auto batch = decoder.decode(all.payloads[0]);
  ASSERT_TRUE(batch);
  std::vector<uint64_t> found;
  for (const auto& event : batch->events)
    found.insert(found.end(), event.blocks.begin(), event.blocks.end());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(batch->events[2].lora_name, "adapter");
}

TEST(EventPublisher, TellsOfAResetWithTheNextStore) {
  Bench bench;
  bench.prompt(0, 2);
  bench.turn();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bench.cache.reset());
  bench.turn();
  EXPECT_EQ(bench.publisher.counters().messages, 1u);
  bench.prompt(0, 2);
  bench.turn();
  EXPECT_EQ(events_of(bench.ask(1).payloads.at(0)), (Words{"cleared", "+2"}));
}

TEST(EventPublisher, EndsAMessageThatIsFullOnlyBehindAStore) {
  Bench bench({.batch_size = 2});
  for (uint32_t i = 0; i < 4; ++i) bench.prompt(100 * i, 1);
  bench.prompt(1000, 4);
  bench.prompt(2000, 1);
  bench.turn();
  const Received all = bench.ask(0);
  std::vector<Words> messages;
  for (const auto& payload : all.payloads) messages.push_back(events_of(payload));
  EXPECT_EQ(messages, (std::vector<Words>{{"+1", "+1"}, {"+1", "+1"}, {"-4", "+4"}, {"-1", "+1"}}));
}

TEST(EventPublisher, KeepsTheLastMessagesForReplay) {
  Bench bench({.replay_queue_size = 3});
  for (uint32_t i = 0; i < 5; ++i) bench.publish();
  EXPECT_EQ(bench.ask(0).sequences, (std::vector<uint64_t>{2, 3, 4}));
  EXPECT_EQ(bench.ask(4).sequences, std::vector<uint64_t>{4});
  EXPECT_TRUE(bench.ask(5).sequences.empty());
  EXPECT_EQ(bench.publisher.counters().replays, 3u);
}

TEST(EventPublisher, IgnoresQuestionsThatAreNone) {
  Bench bench;
  EXPECT_TRUE(bench.asker->send({big_endian(0)}));
  EXPECT_TRUE(bench.asker->send({"", "short"}));
  EXPECT_TRUE(bench.asker->send({"", big_endian(0), "x"}));
  EXPECT_TRUE(bench.ask(0).sequences.empty());
  EXPECT_EQ(bench.publisher.counters().replays, 1u);
}

/// Publishes `n` messages to one who listens; their numbers count from the first of them.
std::vector<uint64_t> heard(Bench& bench, uint32_t n, size_t expected) {
  const uint64_t first = bench.publisher.counters().messages;
  for (uint32_t i = 0; i < n; ++i) bench.publish();
  auto sequences = bench.hear(expected).sequences;
  for (uint64_t& sequence : sequences) sequence -= first;
  return sequences;
}

TEST(EventPublisher, LosesDuplicatesAndReordersOnRequest) {
  Bench bench;
  bench.join();
  EXPECT_EQ(heard(bench, 3, 3), (std::vector<uint64_t>{0, 1, 2}));
  bench.config.kv_events.duplication_rate = 100;
  EXPECT_EQ(heard(bench, 2, 4), (std::vector<uint64_t>{0, 0, 1, 1}));
  bench.config.kv_events.duplication_rate = 0;
  bench.config.kv_events.reorder_rate = 100;
  EXPECT_EQ(heard(bench, 4, 4), (std::vector<uint64_t>{1, 0, 3, 2}));
  bench.config.kv_events.reorder_rate = 0;
  bench.config.kv_events.loss_rate = 100;
  heard(bench, 3, 0);
  bench.config.kv_events.loss_rate = 0;
  EXPECT_EQ(heard(bench, 1, 1), std::vector<uint64_t>{0});
  const EventCounters& c = bench.publisher.counters();
  EXPECT_EQ(c.lost, 3u);
  EXPECT_EQ(c.duplicated, 2u);
  EXPECT_EQ(c.reordered, 2u);
  // What was lost on the way can be asked for.
  EXPECT_EQ(bench.ask(c.messages - 4).sequences.size(), 4u);
}

TEST(EventPublisher, LosesTheSameMessagesForTheSameSeed) {
  const auto lost = [](int64_t seed) {
    Bench bench({.loss_rate = 30});
    bench.config.seed = seed;
    std::string fates;
    for (uint32_t i = 0; i < 50; ++i) {
      const uint64_t before = bench.publisher.counters().lost;
      bench.publish();
      fates += bench.publisher.counters().lost > before ? 'x' : '.';
    }
    return fates;
  };
  const std::string fates = lost(1);
  EXPECT_EQ(fates, lost(1));
  EXPECT_NE(fates, lost(2));
  EXPECT_NEAR(static_cast<double>(std::ranges::count(fates, 'x')), 15, 10);
}

TEST(EventPublisher, DelaysMessagesInOrder) {
  Bench bench;
  bench.join();
  bench.config.kv_events.delay = std::chrono::seconds(2);
  const uint64_t first = bench.publisher.counters().messages;
  bench.publish();
  bench.clock.advance(std::chrono::seconds(1));
  bench.publish();
  ZmqMessage message;
  EXPECT_FALSE(bench.listener.receive(message));
  bench.clock.advance(std::chrono::milliseconds(1100));
  EXPECT_EQ(bench.hear(1).sequences, std::vector<uint64_t>{first});
  EXPECT_FALSE(bench.listener.receive(message));
  bench.clock.advance(std::chrono::milliseconds(1000));
  EXPECT_EQ(bench.hear(1).sequences, std::vector<uint64_t>{first + 1});
}

}  // namespace
}  // namespace llmd::sim
