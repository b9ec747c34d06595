#include "codec/go_json.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::codec {
namespace {

std::string canon(std::string_view json) {
  Arena arena;
  return std::string(go_json(json, arena));
}

TEST(GoJson, DropsSpacesAndSortsKeys) {
  EXPECT_EQ(canon(R"( { "b" : [ 1 , {"d":2,"c": null} , "x" ] , "a" : { } , "B":[] } )"),
            R"({"B":[],"a":{},"b":[1,{"c":null,"d":2},"x"]})");
  EXPECT_EQ(canon(R"([{"z":{"y":1,"x":{"b":1,"a":2}}},{"b":{},"a":[{}]},true])"),
            R"([{"z":{"x":{"a":2,"b":1},"y":1}},{"a":[{}],"b":{}},true])");
}

TEST(GoJson, KeepsTheLastOfRepeatedKeys) {
  EXPECT_EQ(canon(R"({"a":{"x":1},"b":1,"a":{"y":2},"\u0061":[3]})"), R"({"a":[3],"b":1})");
}

TEST(GoJson, ComparesKeysAfterReplacingInvalidUtf8) {
  EXPECT_EQ(canon("{\"\xb5\":1,\"\\u2577\":2,\"\xff\":3}"),
            "{\"\xe2\x95\xb7\":2,\"\xef\xbf\xbd\":3}");
}

TEST(GoJson, EscapesAsGoDoes) {
  EXPECT_EQ(canon(R"("<a href=\"x\">&\/\u0007\b\f\n\r\t\u007f")"),
            "\"\\u003ca href=\\\"x\\\"\\u003e\\u0026/\\u0007\\b\\f\\n\\r\\t\x7f\"");
  EXPECT_EQ(canon(R"("\u00e9\u2028\u2029\ud83d\ude00\ud83d")"),
            "\"\xc3\xa9\\u2028\\u2029\xf0\x9f\x98\x80\xef\xbf\xbd\"");
  EXPECT_EQ(canon("\"a\xff\xc3\xe2\x82(\""),
            "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd(\"");
}

TEST(GoJson, PrintsNumbersAsFloat64) {
  const struct {
    std::string_view in, out;
  } kCases[] = {
      {"0", "0"},
      {"-0", "-0"},
      {"1.0", "1"},
      {"1e3", "1000"},
      {"0.1", "0.1"},
      {"1e21", "1e+21"},
      {"1e20", "100000000000000000000"},
      {"1e-6", "0.000001"},
      {"1e-7", "1e-7"},
      {"1.5e-10", "1.5e-10"},
      {"123456789012", "123456789012"},
      {"12345678901234567890", "12345678901234567000"},
      {"-1.25E2", "-125"},
      {"3.14159", "3.14159"},
      {"9007199254740993", "9007199254740992"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"0.0", "0"},
      {"5e-324", "5e-324"},
      {"1e999", "1e999"},
  };
  for (const auto& c : kCases) EXPECT_EQ(canon(c.in), c.out) << c.in;
}

TEST(GoJson, FollowsTheScannersNestingLimit) {
  std::string text = "1";
  for (int i = 0; i < 256; ++i) text = "{\"a\":[" + text + "]}";
  EXPECT_EQ(canon(text), text);
}

TEST(GoJson, QuotesText) {
  Arena arena;
  EXPECT_EQ(go_json_string("hello", arena), "\"hello\"");
  EXPECT_EQ(go_json_string("<\n>", arena), "\"\\u003c\\n\\u003e\"");
}

}  // namespace
}  // namespace llmd::codec
