#include "codec/proto_stream.h"

#include "codec/protobuf.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::codec {
namespace {

using namespace std::literals;

/// Enters field 1, keeps the bytes of field 2, and writes down what it hears.
struct Recorder final : ProtoSink {
  Take open(uint64_t parent, uint64_t key) override {
    if (parent == 0 && key == proto_bytes(1)) return Take::kEnter;
    return key == proto_bytes(2) ? Take::kBytes : Take::kSkip;
  }
  void number(uint64_t parent, uint64_t key, uint64_t value) override {
    heard += std::to_string(parent >> 3) + "." + std::to_string(key >> 3) + "=" +
             std::to_string(value) + " ";
  }
  void bytes(uint64_t parent, uint64_t, std::string_view part) override {
    heard += parent == 0 ? part : std::string(part) + "' ";
  }
  std::string heard;
};

std::string message() {
  std::string out;
  ProtoWriter w(out);
  w.varint(4, 300);
  w.message(1, [&] {
    w.varint(1, 7);
    w.bytes(9, std::string(200, 'x'));
    w.fixed(3, 9);
    w.varint(2, UINT64_MAX);
  });
  w.bytes(2, "text");
  w.message(1, [] {});
  w.varint(5, 1);
  return out;
}

TEST(ProtoStream, HearsTheSameHoweverTheMessageIsCut) {
  const std::string whole = message();
  for (size_t step = 1; step <= whole.size(); ++step) {
    Recorder recorder;
    ProtoStream stream(recorder);
    for (size_t at = 0; at < whole.size(); at += step)
      ASSERT_TRUE(stream.feed(std::string_view(whole).substr(at, step)));
    EXPECT_TRUE(stream.at_boundary());
    EXPECT_EQ(recorder.heard, "0.4=300 1.1=7 1.3=9 1.2=18446744073709551615 text0.5=1 ") << step;
  }
}

TEST(ProtoStream, EndsAtMalformedBytes) {
  for (const auto& bad : {
           "\x00\x01"s,                                      // field 0
           "\x0b"s,                                          // a group
           "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"s,  // beyond 64 bits
           "\x0a\x02\x08\x80\x01"s,                          // a number that leaves its message
           "\x0a\x02\x12\x05hello"s,                         // bytes that leave their message
           "\x0a\x01\x08\x01"s,                              // a key without a value
       }) {
    Recorder recorder;
    ProtoStream stream(recorder);
    EXPECT_FALSE(stream.feed(bad));
    EXPECT_FALSE(stream.feed("\x20\x01"));
    stream.begin();
    EXPECT_TRUE(stream.feed("\x20\x01"));
    EXPECT_EQ(recorder.heard, "0.4=1 ");
  }
}

TEST(ProtoStream, KnowsAnUnfinishedMessage) {
  const std::string whole = message();
  Recorder recorder;
  ProtoStream stream(recorder);
  for (const char c : whole.substr(0, whole.size() - 1)) stream.feed({&c, 1});
  EXPECT_FALSE(stream.at_boundary());
}

}  // namespace
}  // namespace llmd::codec
