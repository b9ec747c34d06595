#include "trace/tracer.h"

#include "codec/protobuf.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace llmd::trace {
namespace {

using codec::proto_bytes;
using codec::proto_key;
using codec::proto_varint;
using codec::ProtoReader;
using codec::WireType;

/// A span as a collector would read it.
struct Seen {
  std::string trace_id, id, parent_id, name, error;
  uint64_t kind = 0, begin = 0, end = 0, status = 0;
  std::map<std::string, std::string> attributes;
};

Seen read_span(std::string_view bytes) {
  Seen seen;
  ProtoReader r(bytes);
  while (r.next()) {
    if (r.key() == proto_bytes(1)) seen.trace_id = r.bytes();
    if (r.key() == proto_bytes(2)) seen.id = r.bytes();
    if (r.key() == proto_bytes(4)) seen.parent_id = r.bytes();
    if (r.key() == proto_bytes(5)) seen.name = r.bytes();
    if (r.key() == proto_varint(6)) seen.kind = r.number();
    if (r.key() == proto_key(7, WireType::kFixed64)) seen.begin = r.number();
    if (r.key() == proto_key(8, WireType::kFixed64)) seen.end = r.number();
    if (r.key() == proto_bytes(9)) {
      ProtoReader pair(r.bytes());
      std::string key, value;
      while (pair.next()) {
        if (pair.key() == proto_bytes(1)) key = pair.bytes();
        if (pair.key() != proto_bytes(2)) continue;
        ProtoReader any(pair.bytes());
        any.next();
        if (any.key() == proto_bytes(1)) value = any.bytes();
        if (any.key() == proto_varint(2)) value = any.number() ? "true" : "false";
        if (any.key() == proto_varint(3)) value = std::to_string(any.number());
        if (any.key() == proto_key(4, WireType::kFixed64)) value = std::to_string(any.real());
      }
      seen.attributes[key] = value;
    }
    if (r.key() == proto_bytes(15)) {
      ProtoReader status(r.bytes());
      while (status.next()) {
        if (status.key() == proto_bytes(2)) seen.error = status.bytes();
        if (status.key() == proto_varint(3)) seen.status = status.number();
      }
    }
  }
  EXPECT_TRUE(r.ok());
  return seen;
}

std::vector<Seen> read_batch(const Batch& batch) {
  std::vector<Seen> spans;
  for (const auto& scope : batch.spans) {
    ProtoReader r(scope);
    while (r.next())
      if (r.key() == proto_bytes(2)) spans.push_back(read_span(r.bytes()));
    EXPECT_TRUE(r.ok());
  }
  return spans;
}

class TracerTest : public ::testing::Test {
 protected:
  Trace trace(const SpanContext& own, uint64_t parent = 0) {
    return Trace(arena_, rng_, clock_, own, parent, "request");
  }

  Settings settings_;
  ManualClock clock_;
  metric::Registry metrics_{1};
  Rng rng_{1};
  Arena arena_;
};

TEST_F(TracerTest, FollowsTheCallersDecision) {
  settings_.ratio = 0;
  const Tracer never(settings_, clock_, metrics_);
  const HeaderField sampled[] = {
      {"Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}};
  const auto [own, parent] = never.start(HeaderView(sampled), rng_);
  EXPECT_TRUE(own.sampled);
  EXPECT_EQ(own.trace_low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(parent, 0x00f067aa0ba902b7u);
  EXPECT_NE(own.span, parent);

  settings_.ratio = 1;
  const Tracer always(settings_, clock_, metrics_);
  const HeaderField dropped[] = {
      {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}};
  EXPECT_FALSE(always.start(HeaderView(dropped), rng_).own.sampled);

  constexpr std::string_view kCarrier = "00-0000000000000000000000000000abcd-00000000000000ef-01";
  EXPECT_EQ(always.start(HeaderView(dropped), rng_, kCarrier).own.trace_low, 0xa3ce929d0e0e4736u);
  EXPECT_EQ(always.start({}, rng_, kCarrier).own.trace_low, 0xabcdu);
}

TEST_F(TracerTest, SamplesNewTracesByRatio) {
  const HeaderField malformed[] = {{"traceparent", "00-zz"}};
  for (const double ratio : {0.0, 0.25, 1.0}) {
    settings_.ratio = ratio;
    const Tracer tracer(settings_, clock_, metrics_);
    int sampled = 0;
    for (int i = 0; i < 10'000; ++i)
      sampled += tracer.start(HeaderView(malformed), rng_).own.sampled;
    EXPECT_NEAR(sampled, ratio * 10'000, 200);
  }
}

TEST_F(TracerTest, EncodesNestedSpans) {
  Tracer tracer(settings_, clock_, metrics_);
  clock_.advance(Nanos(5));
  Trace t = trace({0x0102030405060708, 0x090a0b0c0d0e0f10, 0x1112131415161718, true}, 0x2122);
  {
    Stage outer(&t, "outer", Scope::kScheduling);
    outer.set("count", 3);
    clock_.advance(Nanos(10));
    Stage inner(&t, "scorer.", "queue", Scope::kPlugins);
    inner.set("weight", 0.5);
    inner.set("name", "q");
  }
  t.close_all();
  tracer.finish(t);

  const Batch batch = tracer.take();
  EXPECT_EQ(batch.count, 3u);
  const auto spans = read_batch(batch);
  ASSERT_EQ(spans.size(), 3u);
  const auto &root = spans[0], &outer = spans[1], &inner = spans[2];
  EXPECT_EQ(root.name, "request");
  EXPECT_EQ(root.kind, 2u);
  EXPECT_EQ(root.trace_id, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
  EXPECT_EQ(root.id, "\x11\x12\x13\x14\x15\x16\x17\x18");
  EXPECT_EQ(root.parent_id, std::string("\0\0\0\0\0\0\x21\x22", 8));
  EXPECT_EQ(root.begin, 5u);
  EXPECT_EQ(root.end, 15u);
  EXPECT_EQ(outer.parent_id, root.id);
  EXPECT_EQ(outer.kind, 1u);
  EXPECT_EQ(outer.attributes, (std::map<std::string, std::string>{{"count", "3"}}));
  EXPECT_EQ(inner.name, "scorer.queue");
  EXPECT_EQ(inner.parent_id, outer.id);
  EXPECT_EQ(inner.begin, 15u);
  EXPECT_EQ(inner.attributes.at("weight"), "0.500000");
  EXPECT_EQ(inner.attributes.at("name"), "q");
  EXPECT_EQ(inner.status, 0u);
}

TEST_F(TracerTest, MarksOpenSpansAsFailed) {
  Tracer tracer(settings_, clock_, metrics_);
  Trace t = trace({1, 1, 1, true});
  {
    const Stage done(&t, "done", Scope::kHandlers);
  }
  t.open("under way", Scope::kHandlers);
  t.fail("no endpoint");
  t.close_all();
  tracer.finish(t);
  const auto spans = read_batch(tracer.take());
  ASSERT_EQ(spans.size(), 3u);
  for (const auto& span : spans) {
    EXPECT_EQ(span.status, span.name == "done" ? 0u : 2u) << span.name;
    EXPECT_EQ(span.error, span.name == "done" ? "" : "no endpoint") << span.name;
  }
}

TEST_F(TracerTest, DropsWholeRequestsWhenTheQueueIsFull) {
  settings_.queue_max = 5;
  settings_.batch_max = 4;
  Tracer tracer(settings_, clock_, metrics_);
  int full = 0;
  tracer.on_full([&] { ++full; });
  for (int i = 0; i < 4; ++i) {
    Trace t = trace({1, 1, 1, true});
    {
      const Stage stage(&t, "stage", Scope::kHandlers);
    }
    t.close_all();
    tracer.finish(t);
  }
  EXPECT_EQ(full, 1);
  EXPECT_EQ(tracer.take().count, 4u);
  EXPECT_EQ(tracer.take().count, 0u);
  EXPECT_NE(metrics_.render().find("llmd_trace_spans_total{outcome=\"dropped\"} 4"),
            std::string::npos);
}

TEST_F(TracerTest, StagesDoNothingWithoutATrace) {
  Stage stage(nullptr, "a.", "b", Scope::kHandlers);
  EXPECT_FALSE(stage);
  stage.set("key", 1);
}

}  // namespace
}  // namespace llmd::trace
