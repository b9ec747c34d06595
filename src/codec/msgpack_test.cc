#include "codec/msgpack.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmd::codec {
namespace {

using Kind = MsgpackReader::Kind;
using namespace std::string_literals;

/// Bytes from hex digits; blanks are for the eye.
std::string bytes(std::string_view hex) {
  std::string out;
  int high = -1;
  for (const char c : hex) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      out.push_back(static_cast<char>(high << 4 | digit));
      high = -1;
    }
  }
  return out;
}

TEST(MsgpackReader, ReadsIntegersOfEveryWidth) {
  struct Case {
    const char* hex;
    uint64_t bits;
    bool negative;
  };
  const Case cases[] = {
      {"00", 0, false},
      {"7f", 127, false},
      {"cc80", 128, false},
      {"cd0100", 256, false},
      {"ce00010000", 65536, false},
      {"cf2ceabcfae6d332ea", 3236607068019569386u, false},
      {"cfffffffffffffffff", UINT64_MAX, false},
      {"d07f", 127, false},
      {"ff", static_cast<uint64_t>(-1), true},
      {"e0", static_cast<uint64_t>(-32), true},
      {"d080", static_cast<uint64_t>(-128), true},
      {"d18000", static_cast<uint64_t>(-32768), true},
      {"d280000000", static_cast<uint64_t>(INT64_C(-2147483648)), true},
      {"d3eeddef0b82167eeb", 17212176183586094827u, true},
  };
  for (const Case& c : cases) {
    const std::string message = bytes(c.hex);
    uint64_t value = 0;
    MsgpackReader reader(message);
    EXPECT_EQ(reader.next_kind(), Kind::kInt) << c.hex;
    EXPECT_TRUE(reader.read_bits(value)) << c.hex;
    EXPECT_EQ(value, c.bits) << c.hex;
    EXPECT_TRUE(reader.done());
    MsgpackReader again(message);
    EXPECT_EQ(again.read_uint(value), !c.negative) << c.hex;
  }
}

TEST(MsgpackReader, ReadsFloatsAndIntegersAsReal) {
  double value = 0;
  EXPECT_TRUE(MsgpackReader(bytes("cb41d954fc40200000")).read_real(value));
  EXPECT_EQ(value, 1700000000.5);
  EXPECT_TRUE(MsgpackReader(bytes("ca3fc00000")).read_real(value));
  EXPECT_EQ(value, 1.5);
  EXPECT_TRUE(MsgpackReader(bytes("fe")).read_real(value));
  EXPECT_EQ(value, -2);
  EXPECT_FALSE(MsgpackReader(bytes("a131")).read_real(value));
}

TEST(MsgpackReader, ReadsTextAndBytesAsViews) {
  std::string_view view;
  const std::string text = bytes("a3475055");
  EXPECT_TRUE(MsgpackReader(text).read_text(view));
  EXPECT_EQ(view, "GPU");
  EXPECT_EQ(view.data(), text.data() + 1);
  EXPECT_TRUE(MsgpackReader(text).read_bytes(view));
  const std::string binary = bytes("c4020102");
  EXPECT_FALSE(MsgpackReader(binary).read_text(view));
  EXPECT_TRUE(MsgpackReader(binary).read_bytes(view));
  EXPECT_EQ(view, "\1\2");
  for (const size_t size : {0, 31, 32, 255, 256, 65535, 65536}) {
    std::string message;
    MsgpackWriter(message).text(std::string(size, 'x'));
    EXPECT_TRUE(MsgpackReader(message).read_text(view));
    EXPECT_EQ(view.size(), size);
    message.clear();
    MsgpackWriter(message).bytes(std::string(size, 'x'));
    EXPECT_EQ(MsgpackReader(message).next_kind(), MsgpackReader::Kind::kBytes);
    EXPECT_TRUE(MsgpackReader(message).read_bytes(view));
    EXPECT_EQ(view.size(), size);
  }
}

TEST(MsgpackReader, ReadsTokenIdsOfMixedWidths) {
  const std::vector<uint32_t> ids = {0, 127, 128, 255, 256, 65535, 65536, UINT32_MAX, 1, 2, 3};
  std::string message;
  MsgpackWriter writer(message);
  for (const uint32_t id : ids) writer.uint(id);
  // Wider than needed, and with a sign, they are the same numbers.
  message += bytes("cf0000000000000005 d30000000000000006");
  std::vector<uint32_t> read(ids.size() + 2);
  MsgpackReader reader(message);
  EXPECT_TRUE(reader.read_uint32s(read));
  EXPECT_EQ(read[ids.size()], 5u);
  EXPECT_EQ(read[ids.size() + 1], 6u);
  read.resize(ids.size());
  EXPECT_EQ(read, ids);
}

TEST(MsgpackReader, RefusesWhatIsNoTokenId) {
  for (const char* hex : {"ff", "cf0000000100000000", "a131", "c0", "cb3ff8000000000000", ""}) {
    uint32_t id[1];
    EXPECT_FALSE(MsgpackReader(bytes(hex)).read_uint32s(id)) << hex;
  }
}

TEST(MsgpackReader, RefusesCountsThatTheMessageCannotHold) {
  uint32_t count;
  EXPECT_FALSE(MsgpackReader(bytes("ddffffffff00")).read_array(count));
  EXPECT_FALSE(MsgpackReader(bytes("dfffffffff00")).read_map(count));
  EXPECT_FALSE(MsgpackReader(bytes("9200")).read_array(count));
  EXPECT_FALSE(MsgpackReader(bytes("8100")).read_map(count));
  EXPECT_FALSE(MsgpackReader(bytes("ddffffffff00")).skip());
  EXPECT_TRUE(MsgpackReader(bytes("920000")).read_array(count));
  EXPECT_EQ(count, 2u);
}

TEST(MsgpackReader, SkipsEveryKindWithWhatIsInIt) {
  for (const char* hex : {"c0",
                          "c2",
                          "c3",
                          "05",
                          "e0",
                          "cc05",
                          "cd0005",
                          "ce00000005",
                          "cf0000000000000005",
                          "d005",
                          "d10005",
                          "d200000005",
                          "d30000000000000005",
                          "ca00000000",
                          "cb0000000000000000",
                          "a0",
                          "a16b",
                          "d90161",
                          "da000161",
                          "db0000000161",
                          "c40161",
                          "c5000161",
                          "c60000000161",
                          "d40100",
                          "d5010000",
                          "d60100000000",
                          "d7010000000000000000",
                          "d80100000000000000000000000000000000",
                          "c7020100ff",
                          "c800020100ff",
                          "c9000000020100ff",
                          "90",
                          "9301a16b90",
                          "dc000201c0",
                          "dd00000001c0",
                          "80",
                          "81a16b9181a16bc0",
                          "de0001a16b01",
                          "df00000001a16b01"}) {
    const std::string message = bytes(hex);
    const std::string two = message + "\x2a";
    MsgpackReader reader(two);
    uint64_t after = 0;
    EXPECT_TRUE(reader.skip() && reader.read_uint(after) && reader.done()) << hex;
    EXPECT_EQ(after, 42u) << hex;
    for (size_t size = 0; size < message.size(); ++size)
      EXPECT_FALSE(MsgpackReader(std::string_view(message).substr(0, size)).skip()) << hex << size;
  }
}

TEST(MsgpackReader, SkipsAnyDepthWithoutRecursing) {
  const std::string nested = std::string(1 << 20, '\x91') + '\xc0';
  MsgpackReader deep(nested);
  EXPECT_TRUE(deep.skip());
  EXPECT_TRUE(deep.done());
}

TEST(MsgpackReader, FailsForGoodUntilRewound) {
  const std::string message = bytes("a16b05");
  MsgpackReader reader(message);
  const char* const start = reader.position();
  uint64_t number = 0;
  std::string_view text;
  EXPECT_FALSE(reader.read_uint(number));
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.read_text(text));
  EXPECT_EQ(reader.next_kind(), Kind::kNone);
  reader.rewind(start);
  EXPECT_TRUE(reader.read_text(text) && reader.read_uint(number));
  EXPECT_EQ(number, 5u);
}

TEST(MsgpackReader, HasNoKindAtTheEndAndForTheReservedByte) {
  EXPECT_EQ(MsgpackReader("").next_kind(), Kind::kNone);
  EXPECT_EQ(MsgpackReader("\xc1").next_kind(), Kind::kNone);
  EXPECT_FALSE(MsgpackReader("\xc1").skip());
}

TEST(MsgpackWriter, WritesTheShortestForms) {
  std::string out;
  MsgpackWriter writer(out);
  writer.array(3);
  writer.real(1.5);
  writer.map(1);
  writer.text("type");
  writer.uint(200);
  writer.nil();
  EXPECT_EQ(out, bytes("93 cb3ff8000000000000 81 a474797065 ccc8 c0"));
  out.clear();
  writer.array(16);
  writer.map(70000);
  writer.uint64(1);
  writer.uint32(1);
  writer.int64(-1);
  writer.uint(70000);
  EXPECT_EQ(out, bytes("dc0010 df00011170 cf0000000000000001 ce00000001 d3ffffffffffffffff "
                       "ce00011170"));
}

}  // namespace
}  // namespace llmd::codec
