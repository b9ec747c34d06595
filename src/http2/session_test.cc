#include "http2/session.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

namespace llmd::http2 {
namespace {

using namespace std::literals;

/// A stream that writes down what it hears.
class Recorder final : public Stream {
 public:
  using Act = std::function<void(Recorder&)>;
  Recorder(io::BufferPool& buffers, io::ByteBudget& budget, std::vector<std::string>& heard,
           Act on_end = {})
      : Stream(buffers, budget), heard_(heard), act_(std::move(on_end)) {}

  bool keeps_window = false;

  using Stream::consume;
  using Stream::finish;
  using Stream::reset;
  using Stream::send;
  using Stream::send_head;
  void send(std::string_view bytes) {
    const Piece piece{bytes};
    Stream::send({&piece, 1});
  }
  size_t unsent() const { return output_.bytes(); }

 private:
  bool on_field(std::string_view name, std::string_view value) override {
    if (!within_header_list(name, value)) return false;
    heard_.push_back(std::string(name) + "=" + std::string(value));
    return true;
  }
  void on_fields_end(bool last) override { heard_.push_back(last ? "fields, last" : "fields"); }
  void on_data(std::string_view data) override {
    heard_.push_back("data " + std::to_string(data.size()));
    if (!keeps_window) consume(data.size());
  }
  void on_end() override {
    heard_.push_back("end");
    if (act_) act_(*this);
  }
  void on_closed(Error error) override {
    heard_.push_back("closed " + std::to_string(static_cast<int>(error)));
  }

  std::vector<std::string>& heard_;
  Act act_;
};

/// One side of a connection.
struct Side final : Session::Owner {
  Side(Session::Role role, const Limits& limits, io::Loop& l)
      : loop(l), session(role, limits, {}, l, *this) {}
  void output_ready() override {}
  std::unique_ptr<Stream> open_stream() override {
    auto stream = std::make_unique<Recorder>(loop.buffers(), budget, heard, on_end);
    stream->keeps_window = keeps_window;
    last = stream.get();
    return stream;
  }
  /// What it has to send.
  std::string output() {
    std::string out;
    Gather gather(loop.buffers());
    do {
      session.collect(gather, 1 << 20);
      std::string_view views[64];
      while (!gather.empty()) {
        const size_t n = gather.front(views);
        size_t size = 0;
        for (size_t i = 0; i < n; ++i) {
          out += views[i];
          size += views[i].size();
        }
        gather.sent(size);
      }
    } while (session.collected());
    return out;
  }

  io::Loop& loop;
  io::ByteBudget budget{UINT64_MAX};
  std::vector<std::string> heard;
  Recorder::Act on_end;
  bool keeps_window = false;
  Recorder* last = nullptr;
  Session session;
};

struct SessionTest : ::testing::Test {
  /// Exchanges bytes until both sides have nothing to say.
  void exchange() {
    for (bool quiet = false; !quiet;) {
      const std::string out = client.output(), in = server.output();
      quiet = out.empty() && in.empty();
      if (!out.empty()) server.session.receive(out);
      if (!in.empty()) client.session.receive(in);
    }
  }
  Recorder& request(bool last, const std::vector<HeaderField>& more = {}) {
    std::vector<HeaderField> head = {
        {":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}};
    head.insert(head.end(), more.begin(), more.end());
    auto stream = std::make_unique<Recorder>(loop.buffers(), client.budget, client.heard);
    Recorder& added = *stream;
    client.session.request(std::move(stream), head, last);
    return added;
  }

  io::Loop loop{0, 1};
  Limits limits{.streams_max = 2, .header_list_bytes_max = 1000, .stream_window_bytes = 100'000};
  Side server{Session::Role::kServer, limits, loop};
  Side client{Session::Role::kClient, limits, loop};
};

TEST_F(SessionTest, CarriesARequestAndItsAnswerWithTrailers) {
  server.on_end = [](Recorder& stream) {
    stream.send_head(std::vector<HeaderField>{{":status", "200"}, {"X-Kind", "k"}}, false);
    stream.send("answer");
    stream.finish(std::vector<HeaderField>{{"grpc-status", "0"}});
  };
  Recorder& stream = request(false, {{"one", "1"}});
  stream.send("bo");
  stream.send("dy");
  stream.finish();
  exchange();
  EXPECT_EQ(server.heard,
            (std::vector{":method=POST"s, ":scheme=http"s, ":authority=a"s, ":path=/"s, "one=1"s,
                         "fields"s, "data 4"s, "end"s, "closed 0"s}));
  EXPECT_EQ(client.heard, (std::vector{":status=200"s, "x-kind=k"s, "fields"s, "data 6"s,
                                       "grpc-status=0"s, "fields, last"s, "end"s, "closed 0"s}));
  EXPECT_EQ(server.session.streams() + client.session.streams(), 0u);
  EXPECT_EQ(server.budget.used() + client.budget.used(), 0u);
}

TEST_F(SessionTest, AStreamWhoseWindowIsKeptStopsAlone) {
  server.keeps_window = true;
  Recorder& stalled = request(false);
  stalled.send(std::string(300'000, 'x'));
  exchange();
  EXPECT_EQ(stalled.unsent(), 200'000u);
  Recorder* const reader = server.last;
  server.keeps_window = false;
  Recorder& other = request(false);
  other.send(std::string(300'000, 'x'));
  exchange();
  EXPECT_EQ(other.unsent(), 0u);
  reader->keeps_window = false;
  reader->consume(100'000);
  exchange();
  EXPECT_EQ(stalled.unsent(), 0u);
}

TEST_F(SessionTest, AnAnswerBeforeTheEndOfTheRequestEndsIt) {
  Recorder& stream = request(false);
  stream.send("some");
  exchange();
  server.last->send_head(std::vector<HeaderField>{{":status", "413"}}, true);
  exchange();
  EXPECT_EQ(client.heard, (std::vector{":status=413"s, "fields, last"s, "end"s, "closed 0"s}));
  EXPECT_EQ(client.session.streams(), 0u);
}

TEST_F(SessionTest, HeadsBeyondTheLimitResetTheirStream) {
  const std::string large(1000, 'v');
  request(true, {{"large", large}});
  exchange();
  EXPECT_EQ(client.heard.back(), "closed 2");
  client.heard.clear();
  request(true, {{"small", "v"}});
  exchange();
  EXPECT_EQ(server.heard[server.heard.size() - 2], "fields, last");
}

TEST_F(SessionTest, OnlySoManyStreamsRunAtOnce) {
  exchange();
  request(true);
  request(true);
  EXPECT_FALSE(client.session.can_request());
  exchange();
  EXPECT_EQ(server.session.streams(), 2u);
  server.last->reset(Error::kCancel);
  exchange();
  EXPECT_TRUE(client.session.can_request());
  EXPECT_EQ(client.heard, std::vector{"closed 8"s});
}

TEST_F(SessionTest, DrainsWithoutLosingWhatHasBegun) {
  request(true);
  exchange();
  server.session.drain();
  exchange();
  EXPECT_FALSE(client.session.can_request());
  EXPECT_FALSE(server.session.over());
  server.last->send_head(std::vector<HeaderField>{{":status", "204"}}, true);
  exchange();
  EXPECT_EQ(client.heard[0], ":status=204");
  EXPECT_TRUE(server.session.over());
}

TEST_F(SessionTest, EndsOnWhatIsNoHttp2) {
  EXPECT_FALSE(server.session.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  request(true);
  client.output();
  client.session.receive("HTTP/1.1 400 Bad Request\r\n\r\n");
  client.output();
  EXPECT_TRUE(client.session.over());
  EXPECT_TRUE(client.session.head_pending());
}

TEST_F(SessionTest, ItsEndIsToldToAllStreams) {
  request(true);
  request(true);
  exchange();
  server.session.close_all(Error::kCancel);
  EXPECT_EQ(server.heard.back(), "closed 8");
  EXPECT_EQ(server.session.streams(), 0u);
}

}  // namespace
}  // namespace llmd::http2
