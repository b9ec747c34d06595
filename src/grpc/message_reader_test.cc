#include "message_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>
#include <zlib.h>

namespace llmd::grpc {
namespace {

using namespace std::literals;
using Result = MessageReader::Result;

std::string framed(std::string_view message) {
  std::string out(5, '\0');
  for (int i = 0; i < 4; ++i) out[1 + i] = static_cast<char>(message.size() >> (24 - 8 * i));
  return out += message;
}

struct Reading {
  io::BufferPool buffers;
  io::ByteBudget budget{1 << 20};
  MessageReader reader{buffers, budget, 1000};
  std::vector<std::string> messages;

  Result feed(std::string_view bytes) {
    std::string_view message;
    Result result;
    while ((result = reader.read(bytes, message)) == Result::kMessage)
      messages.emplace_back(message);
    return result;
  }
};

TEST(MessageReader, FindsMessagesHoweverTheyAreCut) {
  const std::string bytes =
      framed("one") + framed("") + framed(std::string(900, 'x')) + framed("4");
  for (size_t step = 1; step <= bytes.size(); ++step) {
    Reading r;
    for (size_t at = 0; at < bytes.size(); at += step)
      EXPECT_EQ(r.feed(std::string_view(bytes).substr(at, step)), Result::kMore);
    EXPECT_EQ(r.messages, (std::vector{"one"s, ""s, std::string(900, 'x'), "4"s})) << step;
    EXPECT_EQ(r.feed(""), Result::kMore);
    std::string_view none, message;
    r.reader.read(none, message);
    EXPECT_TRUE(r.reader.at_boundary());
    EXPECT_EQ(r.budget.used(), 0u);
  }
}

TEST(MessageReader, TakesMessagesThatArriveWholeFromWhereTheyAre) {
  Reading r;
  const std::string bytes = framed("abc");
  std::string_view input = bytes, message;
  EXPECT_EQ(r.reader.read(input, message), Result::kMessage);
  EXPECT_EQ(message.data(), bytes.data() + 5);
  EXPECT_EQ(r.buffers.system_allocations(), 0u);
}

TEST(MessageReader, RefusesWhatIsTooLargeOrCompressed) {
  for (const auto& [bytes, expected] : {std::pair{"\0\0\0\x03\xe9zzz"s, Result::kTooLarge},
                                        std::pair{"\1\0\0\0\1zzz"s, Result::kCompressed}})
    for (const size_t cut : {1, 5, 8}) {
      Reading r;
      Result result = r.feed(bytes.substr(0, cut));
      if (result == Result::kMore) result = r.feed(bytes.substr(cut));
      EXPECT_EQ(result, expected) << cut;
    }
}

std::string gzipped(std::string_view text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string framed_gzip(std::string_view compressed) {
  std::string out = framed(compressed);
  out[0] = '\1';
  return out;
}

TEST(MessageReader, InflatesMessagesHoweverTheyAreCut) {
  const std::string bytes = framed_gzip(gzipped("one")) + framed("two") + framed_gzip(gzipped("")) +
                            framed_gzip(gzipped(std::string(1000, 'x')));
  for (size_t step = 1; step <= bytes.size(); ++step) {
    Reading r;
    r.reader.accept_gzip();
    for (size_t at = 0; at < bytes.size(); at += step)
      EXPECT_EQ(r.feed(std::string_view(bytes).substr(at, step)), Result::kMore);
    EXPECT_EQ(r.messages, (std::vector{"one"s, "two"s, ""s, std::string(1000, 'x')})) << step;
    EXPECT_EQ(r.feed(""), Result::kMore);
    EXPECT_EQ(r.budget.used(), 0u);
  }
}

TEST(MessageReader, InflatesNoFurtherThanTheLimit) {
  Reading r;
  r.reader.accept_gzip();
  const std::string bomb = gzipped(std::string(200'000, '\0'));
  ASSERT_LT(bomb.size(), 1000u);
  EXPECT_EQ(r.feed(framed_gzip(bomb)), Result::kTooLarge);
  EXPECT_LE(r.budget.used(), 16u << 10);
  io::ByteBudget small(10'000);
  MessageReader poor(r.buffers, small, 1 << 20);
  poor.accept_gzip();
  const std::string bytes = framed_gzip(bomb);
  std::string_view input = bytes, message;
  EXPECT_EQ(poor.read(input, message), Result::kNoMemory);
}

TEST(MessageReader, RefusesWhatIsNoSingleGzipStream) {
  const std::string good = gzipped("hello");
  std::string flipped = good;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);
  for (const auto& bad : {"hello"s, ""s, good.substr(0, good.size() - 1), good + "x", flipped}) {
    Reading r;
    r.reader.accept_gzip();
    EXPECT_EQ(r.feed(framed_gzip(bad)), Result::kMalformed);
  }
}

TEST(MessageReader, StopsAtTheBudget) {
  io::BufferPool buffers;
  io::ByteBudget budget(10'000);
  MessageReader reader(buffers, budget, 1 << 20);
  std::string_view input = "\0\0\0\1\0abc"sv, message;
  EXPECT_EQ(reader.read(input, message), Result::kNoMemory);
}

}  // namespace
}  // namespace llmd::grpc
