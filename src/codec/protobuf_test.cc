#include "codec/protobuf.h"

#include <gtest/gtest.h>

namespace llmd::codec {
namespace {

using namespace std::literals;

TEST(ProtoWriter, WritesTheGoldenBytes) {
  std::string out;
  ProtoWriter w(out);
  w.varint(1, 150);
  w.bytes(2, "testing");
  w.message(3, [&] { w.varint(1, 150); });
  w.real(4, 1.0);
  w.varint(16, UINT64_MAX);
  EXPECT_EQ(out,
            "\x08\x96\x01"
            "\x12\x07testing"
            "\x1a\x03\x08\x96\x01"
            "\x21\0\0\0\0\0\0\xf0\x3f"
            "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
}

TEST(ProtoWriter, KeepsLengthsCanonicalAsNestedMessagesGrow) {
  for (const size_t size : {0, 1, 125, 126, 127, 128, 16'380, 16'384, 70'000}) {
    std::string out;
    ProtoWriter w(out);
    w.message(1, [&] { w.message(2, [&] { w.bytes(3, std::string(size, 'x')); }); });
    const auto wrap = [](char key, const std::string& inner) {
      std::string s(1, key);
      char space[10];
      s.append(space, static_cast<size_t>(put_varint(space, inner.size()) - space));
      return s + inner;
    };
    EXPECT_EQ(out, wrap(0x0a, wrap(0x12, wrap(0x1a, std::string(size, 'x'))))) << size;
  }
}

TEST(ProtoReader, ReadsWhatTheWriterWrote) {
  std::string out;
  ProtoWriter w(out);
  w.varint(1, 1ull << 63);
  w.bytes(2, "");
  w.real(3, -0.5);
  ProtoReader r(out);
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.key(), proto_varint(1));
  EXPECT_EQ(r.number(), 1ull << 63);
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.key(), proto_bytes(2));
  EXPECT_EQ(r.bytes(), "");
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.real(), -0.5);
  EXPECT_FALSE(r.next());
  EXPECT_TRUE(r.ok());
}

TEST(ProtoReader, RefusesWhatIsMalformed) {
  const std::string_view bad[] = {
      "\x08",      // no value
      "\x08\xff",  // unfinished varint
      "\x12\x05"
      "abc",                                           // shorter than its length
      "\x00\x01"sv,                                    // field 0
      "\x0b\x0c",                                      // a group
      "\x0d\x01\x02\x03",                              // half of a fixed32
      "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",  // more than 64 bits
      "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  // a length beyond everything
  };
  for (const auto text : bad) {
    ProtoReader r(text);
    while (r.next()) {
    }
    EXPECT_FALSE(r.ok()) << ::testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace llmd::codec
