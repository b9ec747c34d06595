#include "central_link.h"
#include "pod_link.h"
#include "test_support.h"

#include "base/mutex.h"
#include "codec/msgpack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <string>
#include <vector>

namespace llmd::kv_events {
namespace {

using testing::describe;
using Lines = std::vector<std::string>;

/// Notes what it is told, a line each. May be told from several threads.
class Notes final : public EventSink {
 public:
  void on_joined(Publisher& p) override { note(p, "joined"); }
  void on_batch(Publisher& p, std::string_view model, const Batch& batch) override {
    for (const Event& event : batch.events) note(p, fmt::format("{} {}", model, describe(event)));
  }
  void on_lost(Publisher& p, uint64_t n) override { note(p, fmt::format("lost {}", n)); }
  void on_reset(Publisher& p) override { note(p, "reset"); }
  void on_left(Publisher& p) override { note(p, "left"); }

  Lines lines() const {
    const MutexLock lock(mutex_);
    return lines_;
  }
  /// Waits until there are `n` lines; gives up after long enough.
  bool wait_for(size_t n) {
    mutex_.lock();
    const bool there =
        changed_.wait_for(mutex_, std::chrono::seconds(60), [&] { return lines_.size() >= n; });
    mutex_.unlock();
    return there;
  }

 private:
  void note(const Publisher& p, std::string_view what) {
    const MutexLock lock(mutex_);
    lines_.push_back(p.rank ? fmt::format("{}/{} {}", p.pod, *p.rank, what)
                            : fmt::format("{} {}", p.pod, what));
    changed_.notify_all();
  }
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  Lines lines_;
};

std::string payload(double published, uint64_t block, std::optional<uint32_t> rank = {}) {
  std::string out;
  codec::MsgpackWriter w(out);
  w.array(3);
  w.real(published);
  w.array(1);
  w.array(2);
  w.text("BlockRemoved");
  w.array(1);
  w.uint64(block);
  rank ? w.uint(*rank) : w.nil();
  return out;
}

std::string big_endian(uint64_t number) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
  return out;
}

/// An engine that publishes, keeps what it published, and answers questions for it.
class Engine {
 public:
  explicit Engine(ZmqContext& zmq) : pub_(zmq, ZMQ_XPUB), router_(zmq, ZMQ_ROUTER) {
    EXPECT_TRUE(pub_.bind("tcp://127.0.0.1:*"));
    EXPECT_TRUE(router_.bind("tcp://127.0.0.1:*"));
  }

  std::string endpoint() const { return pub_.bound_endpoint(); }
  std::string replay_endpoint() const { return router_.bound_endpoint(); }

  /// Whether a subscriber is there: only then does it get what is published.
  bool subscribed() {
    ZmqMessage message;
    while (pub_.receive(message)) subscribed_ = message.frame(0).starts_with('\1');
    return subscribed_;
  }
  /// A removal of block `sequence` + 100.
  void publish(bool lost = false) {
    past_.push_back(payload(++time_, 100 + past_.size()));
    if (!lost) resend(past_.size() - 1);
  }
  void resend(size_t sequence) {
    EXPECT_TRUE(pub_.send({kTopic, big_endian(sequence), past_[sequence]}));
  }
  void send(std::initializer_list<std::string_view> frames) { EXPECT_TRUE(pub_.send(frames)); }
  void restart() { past_.clear(); }

  /// Answers what was asked; returns how many questions.
  int serve(bool with_topic = true) {
    int questions = 0;
    ZmqMessage question;
    while (router_.receive(question)) {
      ++questions;
      EXPECT_EQ(question.size(), 3u);
      const std::string who(question.frame(0));
      const auto read = as_message({}, question.frame(2), {});
      asked_.push_back(read->sequence);
      for (size_t s = read->sequence; s < past_.size(); ++s)
        with_topic ? router_.send({who, "", kTopic, big_endian(s), past_[s]})
                   : router_.send({who, "", big_endian(s), past_[s]});
      with_topic ? router_.send({who, "", "", big_endian(UINT64_MAX), ""})
                 : router_.send({who, "", big_endian(UINT64_MAX), ""});
    }
    return questions;
  }
  const std::vector<uint64_t>& asked() const { return asked_; }

  static constexpr std::string_view kTopic = "kv@pod@model";

 private:
  ZmqSocket pub_, router_;
  std::vector<std::string> past_;
  std::vector<uint64_t> asked_;
  double time_ = 1000;
  bool subscribed_ = false;
};

/// A loop on the test's own thread, and what links need.
struct Bench {
  ZmqContext zmq;
  ManualClock clock;
  io::Loop loop{0, 1, clock};
  metric::Registry registry{1};
  SubscriberMetrics metrics{registry};
  SubscriberOptions options;
  BatchDecoder decoder{**find_adapter("")};
  Notes notes;
  std::atomic<int> replays_left{kReplaysMax};
  LinkContext context{loop, zmq, {decoder, notes, metrics, clock}, options, replays_left};

  /// Turns the loop until `done`; gives up after many turns.
  template <class Done>
  bool until(Done done) {
    for (int i = 0; i < 10'000; ++i) {
      if (done()) return true;
      loop.turn(std::chrono::milliseconds(1));
    }
    return done();
  }
  bool until_lines(size_t n) {
    return until([&] { return notes.lines().size() >= n; });
  }
  bool page_has(std::string_view line) { return registry.render().contains(line); }
};

PublisherSpec spec_of(const Engine& engine, bool replay) {
  return {.id = "default/pod",
          .pod = "10.0.0.1:8000",
          .owner = 7,
          .endpoint = engine.endpoint(),
          .replay_endpoint = replay ? engine.replay_endpoint() : "",
          .model = ""};
}

std::string removed(int block) {
  return fmt::format("10.0.0.1:8000 model removed [{}] gpu", block);
}

TEST(PodLink, HandsOnWhatIsPublishedUnderTheNameOfTheEndpoint) {
  Bench bench;
  Engine engine(bench.zmq);
  PodLink link(bench.context, spec_of(engine, false));
  ASSERT_TRUE(link.start());
  ASSERT_TRUE(bench.until([&] { return engine.subscribed(); }));
  for (int i = 0; i < 200; ++i) engine.publish();
  ASSERT_TRUE(bench.until_lines(201));
  Lines expected{"10.0.0.1:8000 joined"};
  for (int i = 0; i < 200; ++i) expected.push_back(removed(100 + i));
  EXPECT_EQ(bench.notes.lines(), expected);
  EXPECT_TRUE(bench.page_has(
      "llm_d_epp_kv_cache_events_messages_received_total{pod_identifier=\"10.0.0.1:8000\"} 200"));
  EXPECT_TRUE(bench.page_has("llmd_kv_events_total{type=\"removed\"} 200"));
}

TEST(PodLink, TellsOfAnEngineThatCannotBeHeard) {
  constexpr std::string_view kError =
      "zmq_errors_total{operation=\"connect\",pod_identifier=\"10.0.0.1:8000\"} 1";
  Bench bench;
  PublisherSpec spec;
  {
    Engine gone(bench.zmq);
    spec = spec_of(gone, false);
  }
  PodLink silent(bench.context, spec);
  ASSERT_TRUE(silent.start());
  bench.clock.advance(PodLink::kFirstConnectionMax - std::chrono::seconds(1));
  bench.loop.turn(Nanos(0));
  EXPECT_FALSE(bench.page_has(kError));
  bench.clock.advance(std::chrono::seconds(2));
  bench.loop.turn(Nanos(0));
  EXPECT_TRUE(bench.page_has(kError));

  Engine engine(bench.zmq);
  PodLink link(bench.context, spec_of(engine, false));
  ASSERT_TRUE(link.start());
  ASSERT_TRUE(bench.until([&] { return engine.subscribed(); }));
  engine.publish();
  ASSERT_TRUE(bench.until_lines(3));
  bench.clock.advance(2 * PodLink::kFirstConnectionMax);
  bench.loop.turn(Nanos(0));
  EXPECT_TRUE(bench.page_has(kError)) << "still 1";
}

TEST(PodLink, SkipsMessagesThatAreNone) {
  Bench bench;
  Engine engine(bench.zmq);
  PodLink link(bench.context, spec_of(engine, false));
  ASSERT_TRUE(link.start());
  ASSERT_TRUE(bench.until([&] { return engine.subscribed(); }));
  engine.send({"kv@a", "short", "x"});
  engine.send({"kv@a", big_endian(0)});
  engine.send({"kv@a", big_endian(0), "x", "y", "z", "a", "b"});
  engine.publish();
  engine.send({Engine::kTopic, big_endian(1), "\xc1"});  // counts as a batch that is lost
  ASSERT_TRUE(bench.until_lines(3));
  EXPECT_EQ(bench.notes.lines(),
            (Lines{"10.0.0.1:8000 joined", removed(100), "10.0.0.1:8000 lost 1"}));
  EXPECT_TRUE(bench.page_has("llmd_kv_events_skipped_total{reason=\"malformed_message\"} 3"));
  EXPECT_TRUE(bench.page_has("llmd_kv_events_skipped_total{reason=\"malformed_batch\"} 1"));
}

class PodLinkReplay : public ::testing::TestWithParam<bool> {};

TEST_P(PodLinkReplay, ClosesGapsAndLearnsThePast) {
  const bool with_topic = GetParam();
  Bench bench;
  Engine engine(bench.zmq);
  for (int i = 0; i < 100; ++i) engine.publish(true);  // before anyone was there
  PublisherSpec spec = spec_of(engine, true);
  spec.model = "model";
  PodLink link(bench.context, spec);
  ASSERT_TRUE(link.start());
  const auto serve_until = [&](size_t lines) {
    return bench.until([&] {
      engine.serve(with_topic);
      return engine.subscribed() && bench.notes.lines().size() >= lines;
    });
  };
  ASSERT_TRUE(serve_until(101));
  engine.publish();
  ASSERT_TRUE(serve_until(102));
  for (int i = 0; i < 5; ++i) engine.publish(true);
  engine.publish();
  ASSERT_TRUE(serve_until(108));
  engine.publish();
  engine.resend(104);
  engine.publish();
  ASSERT_TRUE(serve_until(110));
  Lines expected{"10.0.0.1:8000 joined"};
  for (int i = 0; i < 109; ++i) expected.push_back(removed(100 + i));
  EXPECT_EQ(bench.notes.lines(), expected);
  EXPECT_EQ(bench.replays_left, kReplaysMax);
  EXPECT_TRUE(bench.page_has("llmd_kv_event_replays_total{result=\"complete\"} 2"));
}

TEST_P(PodLinkReplay, BeginsAnewWithARestartedEngine) {
  Bench bench;
  Engine engine(bench.zmq);
  PublisherSpec spec = spec_of(engine, true);
  spec.model = "model";
  PodLink link(bench.context, spec);
  ASSERT_TRUE(link.start());
  const auto serve_until = [&](size_t lines) {
    return bench.until([&] {
      engine.serve(GetParam());
      return engine.subscribed() && bench.notes.lines().size() >= lines;
    });
  };
  ASSERT_TRUE(serve_until(1));
  engine.publish();
  engine.publish();
  ASSERT_TRUE(serve_until(3));
  engine.restart();
  for (int i = 0; i < 3; ++i) engine.publish(true);
  engine.publish();  // 3: does not follow, and is not of the same life
  ASSERT_TRUE(serve_until(8));
  EXPECT_EQ(bench.notes.lines(),
            (Lines{"10.0.0.1:8000 joined", removed(100), removed(101), "10.0.0.1:8000 reset",
                   removed(100), removed(101), removed(102), removed(103)}));
}

INSTANTIATE_TEST_SUITE_P(Forms, PodLinkReplay, ::testing::Bool());

TEST(PodLink, GoesOnAfterSilenceInsteadOfAnAnswer) {
  Bench bench;
  Engine engine(bench.zmq);
  PodLink link(bench.context, spec_of(engine, true));
  ASSERT_TRUE(link.start());
  ASSERT_TRUE(bench.until([&] { return engine.serve() > 0; }));  // at the connection
  ASSERT_TRUE(bench.until([&] { return engine.subscribed(); }));
  engine.publish();
  ASSERT_TRUE(bench.until_lines(2));
  engine.publish(true);
  engine.publish();
  ASSERT_TRUE(bench.until([&] { return bench.replays_left < kReplaysMax; }));
  EXPECT_TRUE(bench.page_has("kv_cache_events_pool_queue_depth 1"));
  for (int attempt = 0; attempt < PodLink::kAttemptsMax; ++attempt) {
    EXPECT_EQ(bench.notes.lines().size(), 2u);
    bench.clock.advance(PodLink::kAnswerPause + std::chrono::milliseconds(2));
    bench.loop.turn(Nanos(0));
  }
  ASSERT_TRUE(bench.until_lines(4));
  EXPECT_EQ(bench.notes.lines(),
            (Lines{"10.0.0.1:8000 joined", removed(100), "10.0.0.1:8000 lost 1", removed(102)}));
  EXPECT_EQ(bench.replays_left, kReplaysMax);
  EXPECT_TRUE(bench.page_has("kv_cache_events_pool_queue_depth 0"));
  EXPECT_TRUE(bench.page_has("operation=\"replay-no-progress\""));
  EXPECT_TRUE(
      bench.page_has("llmd_kv_event_batches_lost_total{pod_identifier=\"10.0.0.1:8000\"} 1"));
}

TEST(PodLink, WaitsForItsTurnToAsk) {
  Bench bench;
  bench.replays_left = 0;
  Engine engine(bench.zmq);
  engine.publish(true);
  PodLink link(bench.context, spec_of(engine, true));
  ASSERT_TRUE(link.start());
  ASSERT_TRUE(bench.until([&] { return bench.page_has("operation=\"replay-capacity\""); }));
  EXPECT_TRUE(engine.asked().empty());
  bench.replays_left = 1;
  bench.clock.advance(std::chrono::milliseconds(102));
  ASSERT_TRUE(bench.until([&] {
    engine.serve();
    return bench.notes.lines().size() == 2 && bench.replays_left == 1;
  }));
}

TEST(PodLink, MayComeAgainAtTheSamePlaceAtOnce) {
  Bench bench;
  Engine engine(bench.zmq);
  std::optional<PodLink> link;
  for (int i = 0; i < 200; ++i) {
    link.emplace(bench.context, spec_of(engine, false));
    ASSERT_TRUE(link->start());
  }
}

TEST(PodLink, NamesAnEndpointThatIsNone) {
  Bench bench;
  PublisherSpec spec;
  spec.endpoint = "nonsense";
  PodLink link(bench.context, spec);
  const auto started = link.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message, "cannot connect to 'nonsense': Invalid argument");
}

/// A link that has bound its endpoint, and a socket that publishes there without bound.
struct CentralBench : Bench {
  CentralBench() {
    options.bind_endpoint = "tcp://127.0.0.1:*";
    EXPECT_TRUE(link.start());
    EXPECT_TRUE(socket.connect(link.bound_endpoint()));
    ZmqMessage subscription;
    EXPECT_TRUE(until([&] { return socket.receive(subscription); }));
  }
  void publish(std::string_view topic, uint64_t sequence, std::string_view batch) {
    EXPECT_TRUE(socket.send({topic, big_endian(sequence), batch}));
  }

  CentralLink link{context};
  ZmqSocket socket{zmq, ZMQ_XPUB, {.send_messages_max = 0}};
};

TEST(CentralLink, TellsPublishersApartByTopicAndRank) {
  CentralBench bench;
  bench.publish("kv@10.0.0.1:8000@m", 1, payload(1, 1));
  bench.publish("kv@10.0.0.2:8000@m", 1, payload(1, 2, 0));
  bench.publish("kv@10.0.0.2:8000@m", 1, payload(1, 3, 1));
  bench.publish("kv@10.0.0.2:8000@m", 2, payload(2, 4, 0));
  bench.publish("other", 1, payload(1, 9));  // not subscribed to
  bench.publish("kv@10.0.0.2:8000@m", 2, "no batch");
  bench.publish("kv@10.0.0.2:8000@m", 3, payload(3, 5, 1));
  bench.publish("kv@10.0.0.1:8000@m", 2, payload(2, 6));
  ASSERT_TRUE(bench.until_lines(10));
  bench.link.forget_pod("10.0.0.1:8000");
  EXPECT_EQ(
      bench.notes.lines(),
      (Lines{"10.0.0.1:8000 joined", "10.0.0.1:8000 m removed [1] gpu", "10.0.0.2:8000/0 joined",
             "10.0.0.2:8000/0 m removed [2] gpu", "10.0.0.2:8000/1 joined",
             "10.0.0.2:8000/1 m removed [3] gpu", "10.0.0.2:8000/0 m removed [4] gpu",
             "10.0.0.2:8000/1 lost 1", "10.0.0.2:8000/1 m removed [5] gpu",
             "10.0.0.1:8000 m removed [6] gpu", "10.0.0.1:8000 left"}));
  EXPECT_EQ(bench.link.publishers(), 2u);
}

TEST(CentralLink, KnowsARelayByItsRow) {
  CentralBench bench;
  size_t lines = 0;
  const auto publish = [&](std::string_view pod, uint64_t sequence, size_t more) {
    bench.publish(fmt::format("kv@{}@m", pod), sequence,
                  payload(static_cast<double>(sequence), sequence));
    ASSERT_TRUE(bench.until_lines(lines += more));
  };
  publish("a", 5, 2);  // with "joined"
  publish("b", 6, 2);
  publish("c", 7, 2);
  publish("a", 8, 1);
  publish("b", 9, 1);
  EXPECT_FALSE(bench.page_has("llmd_kv_event_batches_lost_total{pod_identifier=\"a\"} 1"));
  publish("a", 11, 2);  // somebody's 10 is missing: nobody can tell whose
  publish("b", 12, 2);
  publish("c", 13, 2);
  for (uint64_t i = 14; i < 14 + CentralLink::kRowMin; ++i) publish("c", i, 1);
  publish("a", 14 + CentralLink::kRowMin, 1);
  const auto all = bench.notes.lines();
  const auto lost = [&](std::string_view line) { return std::ranges::count(all, line); };
  EXPECT_EQ(lost("a lost 2"), 1);
  EXPECT_EQ(lost("b lost 2"), 1);
  EXPECT_EQ(lost("c lost 5"), 1);
  EXPECT_EQ(std::ranges::count_if(all, [](auto& line) { return line.contains("lost"); }), 3);
}

TEST(CentralLink, LimitsWhatItFollowsAndMakesRoomOnlyOfWhatIsSilent) {
  CentralBench bench;
  for (size_t i = 0; i <= CentralLink::kPublishersMax; ++i)
    bench.publish(fmt::format("kv@{}@m", i), 0, payload(1, 1));
  ASSERT_TRUE(bench.until([&] { return bench.link.publishers() == CentralLink::kPublishersMax; }));
  ASSERT_TRUE(bench.until([&] { return bench.page_has("reason=\"too_many_publishers\"} 1"); }));
  EXPECT_EQ(bench.link.publishers(), CentralLink::kPublishersMax);
  bench.clock.advance(CentralLink::kSilenceMax);
  bench.publish("kv@new@m", 0, payload(1, 1));
  ASSERT_TRUE(bench.until([&] { return bench.notes.lines().back().starts_with("new m"); }));
  EXPECT_EQ(bench.link.publishers(), CentralLink::kPublishersMax);
}

TEST(Subscriber, FollowsAndUnfollowsWhileItRuns) {
  ZmqContext zmq;
  Engine engine(zmq);
  Notes notes;
  metric::Registry registry(1);
  const auto subscriber = Subscriber::start({.threads = 3}, notes, registry, 1);
  ASSERT_TRUE(subscriber);
  PublisherSpec spec = spec_of(engine, false);
  (*subscriber)->follow(spec);
  (*subscriber)->follow(spec);
  ASSERT_TRUE(notes.wait_for(1));
  while (!engine.subscribed()) std::this_thread::yield();
  engine.publish();
  ASSERT_TRUE(notes.wait_for(2));
  spec.pod = "10.0.0.9:8000";
  (*subscriber)->follow(spec);
  ASSERT_TRUE(notes.wait_for(4));
  EXPECT_EQ((*subscriber)->followed(), 1u);
  (*subscriber)->unfollow(spec.id);
  (*subscriber)->unfollow("unknown");
  ASSERT_TRUE(notes.wait_for(5));
  EXPECT_EQ((*subscriber)->followed(), 0u);
  Lines lines = notes.lines();
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (Lines{"10.0.0.1:8000 joined", "10.0.0.1:8000 left", removed(100),
                          "10.0.0.9:8000 joined", "10.0.0.9:8000 left"}));
}

TEST(Subscriber, SaysWhyItCannotBind) {
  Notes notes;
  metric::Registry registry(1);
  const auto subscriber = Subscriber::start({.bind_endpoint = "tcp://nowhere"}, notes, registry, 1);
  ASSERT_FALSE(subscriber);
  EXPECT_EQ(subscriber.error().message,
            "zmqEndpoint: cannot bind 'tcp://nowhere': Invalid argument");
}

TEST(Subscriber, EndsWithMessagesStillOnTheirWay) {
  ZmqContext zmq;
  Engine engine(zmq);
  Notes notes;
  metric::Registry registry(1);
  auto subscriber =
      Subscriber::start({.threads = 1, .bind_endpoint = "tcp://127.0.0.1:*"}, notes, registry, 1);
  ASSERT_TRUE(subscriber);
  EXPECT_TRUE((*subscriber)->bound_endpoint().starts_with("tcp://127.0.0.1:"));
  (*subscriber)->follow(spec_of(engine, true));
  ASSERT_TRUE(notes.wait_for(1));
  while (!engine.subscribed()) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) engine.publish(i % 7 == 3);
  subscriber->reset();
}

TEST(TcpEndpoint, BracketsIpv6) {
  EXPECT_EQ(tcp_endpoint("10.0.0.1", 5557), "tcp://10.0.0.1:5557");
  EXPECT_EQ(tcp_endpoint("fd00::5", 5557), "tcp://[fd00::5]:5557");
}

}  // namespace
}  // namespace llmd::kv_events
