#include "messages.h"

#include "codec/protobuf.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace llmd::frontend::ext_proc {
namespace {

using namespace std::literals;

// Golden bytes were written by google's protobuf from the published schema.

TEST(ReadRequest, ReadsHeaders) {
  const auto bytes =
      "\x12\x24\x0a\x20"
      "\x0a\x0f\x0a\x07:method\x1a\x04POST"
      "\x0a\x0d\x0a\x05:path\x12\x04/x/y"
      "\x18\x01"sv;
  const auto message = read_request(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->part, Part::kRequestHeaders);
  EXPECT_TRUE(message->end_of_stream);
  std::vector<HeaderField> headers;
  ASSERT_TRUE(read_headers(message->header_map, headers));
  ASSERT_EQ(headers.size(), 2u);
  EXPECT_EQ(headers[0].name, ":method");
  EXPECT_EQ(headers[0].value, "POST") << "raw_value";
  EXPECT_EQ(headers[1].value, "/x/y") << "value";
}

TEST(ReadRequest, ReadsBodiesAndTrailers) {
  const auto body = read_request(
      "\x2a\x07\x0a\x03"
      "abc\x10\x01"sv);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->part, Part::kResponseBody);
  EXPECT_EQ(body->body, "abc");
  EXPECT_TRUE(body->end_of_stream);
  EXPECT_EQ(read_request("\x22\x00"sv)->part, Part::kRequestBody);
  EXPECT_EQ(read_request("\x32\x00"sv)->part, Part::kRequestTrailers);
  EXPECT_EQ(read_request("\x3a\x00"sv)->part, Part::kResponseTrailers);
  EXPECT_EQ(read_request("")->part, Part::kNone);
}

TEST(ReadRequest, RefusesWhatIsMalformed) {
  for (const auto bytes : {"\x12"sv, "\x12\x05\x0a"sv, "\x22\x02\x0a\x05"sv, "\xff\xff"sv})
    EXPECT_FALSE(read_request(bytes)) << ::testing::PrintToString(bytes);
}

std::string subset_metadata(std::string_view value) {
  std::string out;
  codec::ProtoWriter w(out);
  w.message(1, [&] {
    w.bytes(1, "envoy.lb.subset_hint");
    w.message(2, [&] {
      w.message(1, [&] {
        w.bytes(1, "x-gateway-destination-endpoint-subset");
        w.bytes(2, value);
      });
    });
  });
  return out;
}

TEST(ReadSubset, ReadsListsOfStringsOnly) {
  EXPECT_FALSE(read_subset(""));
  EXPECT_FALSE(read_subset("\x0a\x05\x0a\x03xyz"sv)) << "another namespace";
  EXPECT_FALSE(
      read_subset(subset_metadata("\x1a\x0d"
                                  "10.0.0.1:8000"sv)))
      << "a string";
  const auto empty = read_subset(subset_metadata("\x32\x00"sv));
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
  const std::string mixed = subset_metadata(
      "\x32\x10"
      "\x0a\x05\x1a\x03"
      "a:1"
      "\x0a\x00"
      "\x0a\x05\x1a\x03"
      "b:2"sv);
  EXPECT_EQ(read_subset(mixed), (std::vector{"a:1"sv, "b:2"sv}));
}

std::string served_metadata(std::string_view space, std::string_view value) {
  std::string out;
  codec::ProtoWriter w(out);
  w.message(1, [&] {
    w.bytes(1, space);
    w.message(2, [&] {
      w.message(1, [&] {
        w.bytes(1, "x-gateway-destination-endpoint-served");
        w.bytes(2, value);
      });
    });
  });
  return out;
}

TEST(ReadServed, ReadsAStringOfItsNamespace) {
  EXPECT_EQ(read_served(""), "");
  EXPECT_EQ(read_served(served_metadata("envoy.lb",
                                        "\x1a\x03"
                                        "a:1"sv)),
            "a:1");
  EXPECT_EQ(read_served(served_metadata("envoy.lb", "\x20\x01"sv)), "") << "a bool";
  EXPECT_EQ(read_served(served_metadata("other",
                                        "\x1a\x03"
                                        "a:1"sv)),
            "");
}

TEST(WriteReports, GroupsNumbersByNamespace) {
  std::string out = "what was before";
  write_reports(out, {});
  EXPECT_EQ(out, "");
  const schedule::Report reports[] = {{"a", "x", 0.5}, {"b", "y", 2}, {"a", "z", -1}};
  write_reports(out, reports);
  std::string expected;
  codec::ProtoWriter w(expected);
  const auto number = [&](std::string_view name, double value) {
    w.message(1, [&] {
      w.bytes(1, name);
      w.message(2, [&] { w.real(2, value); });
    });
  };
  const auto group = [&](std::string_view space, auto fields) {
    w.message(1, [&] {
      w.bytes(1, space);
      w.message(2, [&] { w.message(5, fields); });
    });
  };
  w.message(8, [&] {
    group("a", [&] {
      number("x", 0.5);
      number("z", -1);
    });
    group("b", [&] { number("y", 2); });
  });
  EXPECT_EQ(out, expected);
}

TEST(WriteRequestHead, WritesTheGoldenBytes) {
  std::string out = "what was before";
  write_request_head(out, {}, {"a:1", {}});
  EXPECT_EQ(out,
            "\x0a\x06\x0a\x04\x12\x00\x28\x01"
            "\x42\x39\x0a\x37\x0a\x08"
            "envoy.lb"
            "\x12\x2b\x2a\x29\x0a\x27\x0a\x1ex-gateway-destination-endpoint\x12\x05\x1a\x03"
            "a:1"s);
  const HeaderField set[] = {{"k", "v"}};
  const std::string_view remove[] = {"r"};
  const std::pair<std::string_view, double> scores[] = {{"a:1", 0.5}};
  write_request_head(out, {set, remove}, {"a:1", scores});
  EXPECT_EQ(out,
            "\x0a\x13\x0a\x11\x12\x0d\x0a\x08\x0a\x06\x0a\x01k\x1a\x01v\x12\x01r\x28\x01"
            "\x42\x78\x0a\x76\x0a\x08"
            "envoy.lb"
            "\x12\x6a\x2a\x68"
            "\x0a\x27\x0a\x1ex-gateway-destination-endpoint\x12\x05\x1a\x03"
            "a:1"
            "\x0a\x3d\x0a\x25x-gateway-destination-endpoint-scores\x12\x14\x2a\x12\x0a\x10\x0a\x03"
            "a:1"
            "\x12\x09\x11\x00\x00\x00\x00\x00\x00\xe0\x3f"s);
}

TEST(WriteBodyPrefix, MatchesItsMessageAtEverySize) {
  for (const size_t size : {0, 1, 100, 127, 128, 61'000, 62'000})
    for (const bool end : {false, true})
      for (const auto direction : {Direction::kRequest, Direction::kResponse}) {
        std::array<char, kBodyPrefixBytesMax> space;
        const size_t n = write_body_prefix(space, direction, size, end);
        std::string whole(space.data(), n);
        whole.append(size, 'x');
        std::string expected;
        codec::ProtoWriter w(expected);
        w.message(direction == Direction::kRequest ? 3 : 4, [&] {
          w.message(1, [&] {
            w.message(3, [&] {
              w.message(3, [&] {
                if (end) w.varint(2, 1);
                if (size > 0) w.bytes(1, std::string(size, 'x'));
              });
            });
          });
        });
        EXPECT_EQ(whole, expected) << size;
      }
}

TEST(WriteOthers, WriteTheGoldenBytes) {
  std::string out;
  write_trailers(out, Direction::kRequest);
  EXPECT_EQ(out, "\x2a\x00"s);
  write_trailers(out, Direction::kResponse);
  EXPECT_EQ(out, "\x32\x00"s);
  const HeaderField reason[] = {{"n", "v"}};
  write_immediate(out, 503, reason, "no");
  EXPECT_EQ(out,
            "\x3a\x15\x0a\x03\x08\xf7\x03\x12\x0a\x0a\x08\x0a\x06\x0a\x01n\x1a\x01v\x1a\x02no"s);
  write_immediate(out, 400, {}, "no");
  EXPECT_EQ(out, "\x3a\x09\x0a\x03\x08\x90\x03\x1a\x02no"s);
  write_response_head(out, {}, true);
  EXPECT_EQ(out, "\x12\x04\x0a\x02\x12\x00\x4a\x04\x10\x01\x30\x02"s);
}

}  // namespace
}  // namespace llmd::frontend::ext_proc
