#include "codec/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::codec {
namespace {

std::string unescape(std::string_view text) {
  std::string out(text.size(), '#');
  out.resize(unescape_json(text, out.data()));
  return out;
}

TEST(UnescapeJson, CopiesPlainText) {
  EXPECT_EQ(unescape(""), "");
  EXPECT_EQ(unescape("plain \xc3\xa9 text"), "plain \xc3\xa9 text");
  EXPECT_EQ(unescape(std::string(1000, 'x')), std::string(1000, 'x'));
}

TEST(UnescapeJson, ReadsShortEscapes) {
  EXPECT_EQ(unescape(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(unescape(R"(one\ntwo with more than eight bytes\nthree\n)"),
            "one\ntwo with more than eight bytes\nthree\n");
}

TEST(UnescapeJson, ReadsUnicodeEscapes) {
  EXPECT_EQ(unescape(R"(\u0041\u00e9\u20AC\u0000)"), std::string("A\xc3\xa9\xe2\x82\xac\0", 7));
  EXPECT_EQ(unescape(R"(\ud83d\ude00!)"), "\xf0\x9f\x98\x80!");
}

TEST(UnescapeJson, LoneSurrogatesBecomeReplacementCharacters) {
  EXPECT_EQ(unescape(R"(\ud83d)"), "\xef\xbf\xbd");
  EXPECT_EQ(unescape(R"(\ude00x)"), "\xef\xbf\xbdx");
  EXPECT_EQ(unescape(R"(\ud83d\ud83d\ude00)"), "\xef\xbf\xbd\xf0\x9f\x98\x80");
  EXPECT_EQ(unescape(R"(\ud83d\u0041)"),
            "\xef\xbf\xbd"
            "A");
  EXPECT_EQ(unescape(R"(\ud83d\n)"), "\xef\xbf\xbd\n");
}

TEST(UnescapeJson, PassesInvalidUtf8Through) {
  EXPECT_EQ(unescape("a\xff\xfe\\n"), "a\xff\xfe\n");
}

}  // namespace
}  // namespace llmd::codec
