#include "frontend/ext_proc.h"

#include "messages.h"

#include "codec/protobuf.h"
#include "grpc/testing/client.h"
#include "metric/registry.h"
#include "route/director.h"
#include "route/testing.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::frontend::ext_proc {
namespace {

using namespace std::literals;
using grpc::testing::TestClient;

// --- what a proxy sends

std::string headers_message(Part part, const std::vector<HeaderField>& headers, bool end) {
  std::string out;
  codec::ProtoWriter w(out);
  w.message(static_cast<uint32_t>(part), [&] {
    w.message(1, [&] {
      for (const auto& field : headers)
        w.message(1, [&] {
          w.bytes(1, field.name);
          w.bytes(3, field.value);
        });
    });
    if (end) w.varint(3, 1);
  });
  return out;
}

std::string body_message(Part part, std::string_view body, bool end) {
  std::string out;
  codec::ProtoWriter w(out);
  w.message(static_cast<uint32_t>(part), [&] {
    w.bytes(1, body);
    if (end) w.varint(2, 1);
  });
  return out;
}

std::string trailers_message(Part part) {
  std::string out;
  codec::ProtoWriter(out).message(static_cast<uint32_t>(part), [] {});
  return out;
}

// --- what it gets back

/// The bytes below a path of field numbers; the last occurrence of each.
std::string_view dig(std::string_view message, std::initializer_list<uint32_t> path) {
  for (const uint32_t field : path) {
    std::string_view found;
    codec::ProtoReader reader(message);
    while (reader.next())
      if (reader.key() == codec::proto_bytes(field)) found = reader.bytes();
    message = found;
  }
  return message;
}

/// The field that a response sets: 1 request headers … 7 immediate response.
uint32_t kind_of(std::string_view message) {
  codec::ProtoReader reader(message);
  return reader.next() ? static_cast<uint32_t>(reader.key() >> 3) : 0;
}

constexpr std::initializer_list<uint32_t> kRequestBodyPath = {3, 1, 3, 3, 1};

const std::vector<HeaderField> kPost = {{":method", "POST"}, {":path", "/v1/completions"}};

class ExtProcTest : public ::testing::Test {
 protected:
  void start(ExtProcOptions options = {}) {
    options.host = "127.0.0.1";
    options.port = 0;
    fleet.set(route::testing::endpoints_at({8000}));
    director.set_pipeline(pipeline);
    server = std::make_unique<ExtProc>(director, metrics, options);
    ASSERT_TRUE(server->start());
    client = connect();
  }
  std::unique_ptr<TestClient> connect() { return std::make_unique<TestClient>(server->port()); }
  int32_t open() { return client->open("/envoy.service.ext_proc.v3.ExternalProcessor/Process"); }
  std::vector<std::string> messages(int32_t id, size_t count) {
    EXPECT_TRUE(
        client->until(loop, [&] { return client->replies[id].messages().size() >= count; }));
    return client->replies[id].messages();
  }
  std::string status(int32_t id) {
    EXPECT_TRUE(client->until(loop, [&] { return client->replies[id].closed; }));
    return client->replies[id].status();
  }

  metric::Registry metrics{3};
  fleet::Fleet fleet;
  route::Director director{fleet, metrics, real_clock()};
  std::shared_ptr<schedule::Pipeline> pipeline = route::testing::trivial_pipeline();
  std::unique_ptr<ExtProc> server;
  io::Loop loop{2, 1};  // plays the proxy
  std::unique_ptr<TestClient> client;
};

TEST_F(ExtProcTest, SendsBodiesBackInPiecesOfAtMost62000Bytes) {
  start();
  const std::pair<size_t, size_t> cases[] = {
      {0, 1}, {61'000, 1}, {62'000, 1}, {62'001, 2}, {125'000, 3}};
  for (const auto& [size, pieces] : cases) {
    std::string body(size, 'x');
    for (size_t i = 0; i < size; i += 97) body[i] = static_cast<char>('a' + i % 26);
    const auto id = open();
    client->send(id, headers_message(Part::kRequestHeaders, kPost, false));
    client->send(
        id, body_message(Part::kRequestBody, std::string_view(body).substr(0, size / 2), false));
    client->send(id,
                 body_message(Part::kRequestBody, std::string_view(body).substr(size / 2), true));
    const auto all = messages(id, pieces + 1);
    ASSERT_EQ(all.size(), pieces + 1);
    EXPECT_EQ(kind_of(all[0]), 1u);
    std::string back;
    for (size_t i = 1; i < all.size(); ++i) {
      EXPECT_EQ(kind_of(all[i]), 3u);
      back += dig(all[i], kRequestBodyPath);
      const bool end = dig(all[i], {3, 1, 3, 3}).starts_with("\x10\x01");
      EXPECT_EQ(end, i == pieces);
    }
    EXPECT_EQ(back, body);
    client->end(id);
    EXPECT_EQ(status(id), "0");
  }
}

/// The names that a request head takes off.
std::vector<std::string> removed(std::string_view message) {
  std::vector<std::string> names;
  codec::ProtoReader reader(dig(message, {1, 1, 2}));
  while (reader.next())
    if (reader.key() == codec::proto_bytes(2)) names.emplace_back(reader.bytes());
  return names;
}

TEST_F(ExtProcTest, TakesControlsOffWhenClientsAreUntrusted) {
  auto head = kPost;
  for (const auto* name : {"x-llm-d-inference-objective", "x-gateway-inference-fairness-id",
                           "x-llm-d-model-name-rewrite", "x-prefiller-host-port"})
    head.push_back({name, "theirs"});
  for (const bool untrusted : {true, false}) {
    ExtProcOptions options;
    options.untrusted_clients = untrusted;
    start(options);
    const int32_t id = open();
    client->send(id, headers_message(Part::kRequestHeaders, head, false));
    client->send(id, body_message(Part::kRequestBody, "{}", true));
    const auto names = removed(messages(id, 1)[0]);
    EXPECT_EQ(names.size(), untrusted ? 4u : 1u);
    EXPECT_EQ(names.back(), "x-prefiller-host-port");
    EXPECT_EQ(metrics.render().find("fairness_id=\"theirs\"") == std::string::npos, untrusted);
    server.reset();
  }
}

TEST_F(ExtProcTest, NeverEndsWellBeforeTheRequestWasAnswered) {
  start();
  const auto nothing = open();
  client->end(nothing);
  EXPECT_EQ(status(nothing), "1");
  const auto unfinished = open();
  client->send(unfinished, headers_message(Part::kRequestHeaders, kPost, false));
  client->send(unfinished, body_message(Part::kRequestBody, "half", false));
  client->end(unfinished);
  EXPECT_EQ(status(unfinished), "1");
  EXPECT_TRUE(client->replies[unfinished].messages().empty());
}

TEST_F(ExtProcTest, TakesTrailersForTheEndOfTheBody) {
  start();
  const auto id = open();
  client->send(id, headers_message(Part::kRequestHeaders, kPost, false));
  client->send(id, body_message(Part::kRequestBody, "body", false));
  client->send(id, trailers_message(Part::kRequestTrailers));
  const auto all = messages(id, 3);
  EXPECT_EQ(kind_of(all[0]), 1u);
  EXPECT_EQ(dig(all[1], kRequestBodyPath), "body");
  EXPECT_FALSE(dig(all[1], {3, 1, 3, 3}).starts_with("\x10\x01"));
  EXPECT_EQ(kind_of(all[2]), 5u);
}

/// Transcript T9 of spec 01, and the same after the answer's head.
TEST_F(ExtProcTest, AnswersForARequestThatIsEvicted) {
  const auto* evictor = own(*pipeline, std::make_unique<route::testing::Evictor>());
  pipeline->pre_request.push_back({evictor, {}});
  start();
  for (const size_t heads : {0, 1}) {
    const auto id = open();
    client->send(id, headers_message(Part::kRequestHeaders, kPost, false));
    client->send(id, body_message(Part::kRequestBody, "body", true));
    messages(id, 2);
    if (heads > 0)
      client->send(id, headers_message(Part::kResponseHeaders, {{":status", "200"}}, false));
    messages(id, 2 + heads);
    evictor->evict();
    EXPECT_EQ(status(id), "0");
    const auto all = messages(id, 3 + heads);
    ASSERT_EQ(all.size(), 3 + heads);
    EXPECT_EQ(kind_of(all.back()), 7u);
    EXPECT_EQ(dig(all.back(), {7, 1}), "\x08\xad\x03");  // 429
    EXPECT_EQ(dig(all.back(), {7, 3}), "request evicted by flow control");
    EXPECT_EQ(dig(all.back(), {7, 2, 1, 1, 1}), "x-llm-d-request-dropped-reason");
    EXPECT_EQ(dig(all.back(), {7, 2, 1, 1, 3}), "evicted");
  }
}

/// Reports how often it was asked; says in the answer's head who served.
class Reporting final : public schedule::Reporter, public schedule::ResponseHook {
 public:
  void report(schedule::RequestContext& context, const request::Usage&) const override {
    context.reports.push_back({"envoy.lb", "asked", ++asked_});
  }
  void on_response_head(schedule::RequestContext& context) const override {
    context.response_headers.set("served", context.served);
  }

 private:
  mutable double asked_ = 0;
};

TEST_F(ExtProcTest, TellsReportsWithTheLastBytesOfAnAnswer) {
  const auto* plugin = route::testing::own(*pipeline, std::make_unique<Reporting>());
  pipeline->reporters.push_back({.plugin = plugin, .duration = {}});
  start();
  double asked = 0;
  for (const bool trailers : {false, true}) {
    const auto id = open();
    client->send(id, headers_message(Part::kRequestHeaders, kPost, false));
    client->send(id, body_message(Part::kRequestBody, "{}", true));
    messages(id, 2);
    client->send(id, headers_message(Part::kResponseHeaders, {{":status", "200"}}, false));
    client->send(id, body_message(Part::kResponseBody, "first", false));
    client->send(id, trailers ? trailers_message(Part::kResponseTrailers)
                              : body_message(Part::kResponseBody, "last", true));
    const auto all = messages(id, 5);
    EXPECT_EQ(dig(all[3], {8}), "") << "not before the end";
    std::string expected;
    const schedule::Report reports[] = {{"envoy.lb", "asked", ++asked}};
    write_reports(expected, reports);
    EXPECT_EQ(dig(all[4], {8}), dig(expected, {8}));
    if (!trailers) EXPECT_EQ(dig(all[4], {4, 1, 3, 3, 1}), "last");
  }
}

TEST_F(ExtProcTest, LearnsFromTheProxyWhoServed) {
  const auto* plugin = route::testing::own(*pipeline, std::make_unique<Reporting>());
  pipeline->response.push_back({.plugin = plugin, .duration = {}});
  start();
  const auto id = open();
  client->send(id, headers_message(Part::kRequestHeaders, kPost, false));
  client->send(id, body_message(Part::kRequestBody, "{}", true));
  messages(id, 2);
  auto head = headers_message(Part::kResponseHeaders, {{":status", "200"}}, true);
  codec::ProtoWriter w(head);
  const auto entry = [&](std::string_view key, auto value) {
    w.message(1, [&] {
      w.bytes(1, key);
      w.message(2, value);
    });
  };
  w.message(8, [&] {
    entry("envoy.lb", [&] {
      entry("x-gateway-destination-endpoint-served", [&] { w.bytes(3, "10.0.0.9:1"); });
    });
  });
  client->send(id, head);
  EXPECT_NE(messages(id, 3)[2].find("10.0.0.9:1"), std::string::npos);
}

TEST_F(ExtProcTest, PassesTheProxysOwnAnswerOn) {
  start();
  const auto id = open();
  client->send(id, headers_message(Part::kRequestHeaders, kPost, false));
  client->send(id, headers_message(Part::kResponseHeaders, {{":status", "413"}}, false));
  client->send(id, body_message(Part::kResponseBody, "too large", true));
  const auto all = messages(id, 2);
  EXPECT_EQ(kind_of(all[0]), 2u);
  EXPECT_EQ(dig(all[1], {4, 1, 3, 3, 1}), "too large");
}

TEST_F(ExtProcTest, RefusesMessagesThatMakeNoSense) {
  start();
  const std::string sequences[][2] = {
      {"\x12"s, ""},  // malformed
      {headers_message(Part::kRequestHeaders, kPost, false),
       headers_message(Part::kRequestHeaders, kPost, false)},
      {body_message(Part::kResponseBody, "x", true), ""},
      {trailers_message(Part::kResponseTrailers), ""},
      {"\xa2\x06\x00"s, ""},  // about nothing known
  };
  for (const auto& sequence : sequences) {
    const auto id = open();
    for (const auto& message : sequence)
      if (!message.empty()) client->send(id, message);
    const auto code = status(id);
    EXPECT_TRUE(code == "3" || code == "13") << code;
  }
}

TEST_F(ExtProcTest, BoundsBodiesOneByOneAndTogether) {
  ExtProcOptions options;
  options.body_bytes_max = 100'000;
  options.buffered_bytes_max = 700'000;
  start(options);
  const std::string block(90'000, 'x');
  // What was sent before on this connection has been seen when a later call is answered.
  const auto seen = [&](int32_t id) {
    EXPECT_TRUE(client->until(loop, [&] { return client->unsent(id) == 0; }));
    const auto probe = open();
    client->send(probe, headers_message(Part::kRequestHeaders, kPost, true));
    messages(probe, 1);
    client->end(probe);
    EXPECT_EQ(status(probe), "0");
  };
  const auto large = open();
  client->send(large, headers_message(Part::kRequestHeaders, kPost, false));
  client->send(large, body_message(Part::kRequestBody, block, false));
  client->send(large, body_message(Part::kRequestBody, block, false));
  EXPECT_EQ(dig(messages(large, 1)[0], {7, 1}), "\x08\x9d\x03") << "413";
  EXPECT_EQ(status(large), "0");
  std::vector<int32_t> held;
  do {
    held.push_back(open());
    client->send(held.back(), headers_message(Part::kRequestHeaders, kPost, false));
    client->send(held.back(), body_message(Part::kRequestBody, block, false));
    seen(held.back());
  } while (client->replies[held.back()].messages().empty() && held.size() < 10);
  EXPECT_GE(held.size(), 4u);
  EXPECT_EQ(dig(messages(held.back(), 1)[0], {7, 1}), "\x08\xf7\x03") << "503";
  EXPECT_NE(metrics.render().find("llmd_epp_buffers_refused_total 1"), std::string::npos);
  client->send(held[0], body_message(Part::kRequestBody, "", true));
  EXPECT_EQ(kind_of(messages(held[0], 1)[0]), 1u) << "the others go on";
}

TEST_F(ExtProcTest, GivesConnectionsToTheLeastLoadedLoop) {
  ExtProcOptions options;
  options.loops = 2;
  start(options);
  auto other = connect();
  for (auto* each : {client.get(), other.get()}) {
    const auto id = each->open("/envoy.service.ext_proc.v3.ExternalProcessor/Process");
    each->send(id, headers_message(Part::kRequestHeaders, kPost, true));
    EXPECT_TRUE(each->until(loop, [&] { return each->replies[id].messages().size() == 1; }));
  }
  EXPECT_EQ(server->connections(0), 1u);
  EXPECT_EQ(server->connections(1), 1u);
  EXPECT_EQ(server->open_streams(), 2u);
}

TEST_F(ExtProcTest, StopsWhenItsStreamsHaveEnded) {
  start();
  const auto id = open();
  client->send(id, headers_message(Part::kRequestHeaders, kPost, true));
  messages(id, 1);
  std::thread stopping([&] { server->stop(30s); });
  EXPECT_TRUE(client->until(loop, [&] { return client->goaways > 0; }));
  client->send(id, headers_message(Part::kResponseHeaders, {{":status", "200"}}, true));
  EXPECT_EQ(messages(id, 2).size(), 2u);
  client->end(id);
  EXPECT_EQ(status(id), "0");
  EXPECT_TRUE(client->until(loop, [&] { return client->wire().ended(); }));
  stopping.join();
}

}  // namespace
}  // namespace llmd::frontend::ext_proc
