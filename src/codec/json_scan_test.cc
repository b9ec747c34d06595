#include "codec/json_scan.h"

#include "base/rng.h"
#include "codec/json_text.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <map>
#include <string>
#include <vector>

namespace llmd::codec {
namespace {

enum : uint8_t { kRoot, kModel, kPrompt, kPromptItem, kMessages, kMessage, kContent, kTools };
constexpr JsonField kFields[] = {
    {kRoot, "model", kModel},
    {kRoot, "prompt", kPrompt},
    {kRoot, "messages", kMessages},
    {kRoot, "tools", kTools},
    {kPrompt, kJsonElement, kPromptItem},
    {kMessages, kJsonElement, kMessage},
    {kMessage, "content", kContent},
};
constexpr JsonSchema kSchema(kFields);

/// Writes every event down as a line of text.
class Recorder final : public JsonSink {
 public:
  std::vector<std::string> events;
  std::map<int, std::string> texts;  // the last one of each field

  void open(uint8_t id, JsonKind kind, size_t at) override {
    events.push_back("open " + std::to_string(id) + (kind == JsonKind::kArray ? " [" : " {") +
                     " at " + std::to_string(at));
  }
  void value(uint8_t id, const JsonValue& v) override {
    events.push_back(std::to_string(id) + " kind " + std::to_string(static_cast<int>(v.kind)) +
                     " [" + std::to_string(v.begin) + "," + std::to_string(v.end) + ") " +
                     std::to_string(v.unescaped) + " " + std::to_string(v.count));
    EXPECT_TRUE(v.text.empty() || v.text.size() == v.end - v.begin);
    texts[id] = v.text;
  }
};

std::string error_of(std::string_view text) {
  Recorder sink;
  JsonScanner scanner(kSchema, sink);
  if (scanner.feed(text) && scanner.finish()) return "";
  return scanner.error().text();
}

bool accepts(std::string_view text) {
  return error_of(text).empty();
}

TEST(JsonScanner, ReportsFieldsOfInterestWithOffsets) {
  const std::string text =
      R"({"model":"m\n","x":[{"model":1}],"prompt":["a",12],"tools":[{}, {}]})";
  Recorder sink;
  JsonScanner scanner(kSchema, sink);
  ASSERT_TRUE(scanner.feed(text) && scanner.finish());
  const std::vector<std::string> expected = {
      "open 0 { at 0",        "1 kind 3 [9,14) 2 0",  "open 2 [ at 42",
      "3 kind 3 [43,46) 1 0", "3 kind 2 [47,49) 0 0", "2 kind 4 [42,50) 0 2",
      "open 7 [ at 59",       "7 kind 4 [59,67) 0 2", "0 kind 5 [0,68) 0 4",
  };
  EXPECT_EQ(sink.events, expected);
  EXPECT_EQ(sink.texts[kTools], "[{}, {}]");
}

TEST(JsonScanner, LastOfRepeatedKeysComesLast) {
  Recorder sink;
  JsonScanner scanner(kSchema, sink);
  ASSERT_TRUE(scanner.feed(R"({"model":"a","model":"b"})") && scanner.finish());
  EXPECT_EQ(sink.texts[kModel], "\"b\"");
}

TEST(JsonScanner, MatchesEscapedKeys) {
  Recorder sink;
  JsonScanner scanner(kSchema, sink);
  ASSERT_TRUE(scanner.feed(R"({"\u006dod\u0065l":"a","mod\\el":"b"})") && scanner.finish());
  EXPECT_EQ(sink.texts[kModel], "\"a\"");
}

TEST(JsonScanner, FieldsOfOtherPlacesAreSilent) {
  Recorder sink;
  JsonScanner scanner(kSchema, sink);
  ASSERT_TRUE(scanner.feed(R"([{"model":"a"},{"prompt":[1]}])") && scanner.finish());
  EXPECT_EQ(sink.events.size(), 2u);
}

TEST(JsonScanner, AcceptsWhatRfc8259Accepts) {
  for (std::string_view text : {"0",           "-0",           "1.5e+10",
                                "1E-2",        "\"\"",         "null",
                                "true",        " false ",      "[]",
                                "{}",          "[1,2]",        "\t{\"a\" : [ {} , null ] }\r\n",
                                "\"\\ud800\"", "1e999",        "123456789012345678901234567890",
                                "\"\\u0000\"", "\"\x7f\xff\"", "[[[]]]",
                                "\"a\\\"b\"",  "{\"\":0}"})
    EXPECT_TRUE(accepts(text)) << text << ": " << error_of(text);
}

TEST(JsonScanner, RefusesInTheWordsOfGo) {
  const struct {
    std::string_view text;
    std::string_view error;
  } kCases[] = {
      {"", "unexpected end of JSON input"},
      {"  ", "unexpected end of JSON input"},
      {"{\"a\":", "unexpected end of JSON input"},
      {"-", "unexpected end of JSON input"},
      {"1.", "unexpected end of JSON input"},
      {"tru", "unexpected end of JSON input"},
      {"\"abc", "unexpected end of JSON input"},
      {"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"},
      {"abc", "invalid character 'a' looking for beginning of value"},
      {"[1,]", "invalid character ']' looking for beginning of value"},
      {"{a:1}", "invalid character 'a' looking for beginning of object key string"},
      {"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"},
      {"{\"a\" 1}", "invalid character '1' after object key"},
      {"{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"},
      {"[1 2]", "invalid character '2' after array element"},
      {"[1}", "invalid character '}' after array element"},
      {"{} x", "invalid character 'x' after top-level value"},
      {"01", "invalid character '1' after top-level value"},
      {"\"a\nb\"", "invalid character '\\n' in string literal"},
      {"\"\\x\"", "invalid character 'x' in string escape code"},
      {"\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"},
      {"trux", "invalid character 'x' in literal true (expecting 'e')"},
      {"-a", "invalid character 'a' in numeric literal"},
      {"1.e", "invalid character 'e' after decimal point in numeric literal"},
      {"1ex", "invalid character 'x' in exponent of numeric literal"},
      {"'", "invalid character '\\'' looking for beginning of value"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.text), c.error) << c.text;
}

TEST(JsonScanner, LimitsNesting) {
  EXPECT_TRUE(accepts(std::string(512, '[') + std::string(512, ']')));
  EXPECT_EQ(error_of(std::string(513, '[')), "exceeded max depth");
}

TEST(JsonScanner, CountsUnescapedBytes) {
  for (std::string_view inside :
       {"", "abc", R"(\n\t\\)", R"(\u0041\u00e9\u20ac)", R"(\ud83d\ude00)", R"(\ud83d)",
        R"(\ude00)", R"(\ud83d\ud83d\ude00)", R"(\ud83dx\ude00)", R"(\ud83d\n\ude00)",
        R"(\ud83d\u0041)", R"(\ud83d\ude00\ude00)"}) {
    std::string out(inside.size(), 0);
    const size_t expected = unescape_json(inside, out.data());
    const std::string text = "{\"model\":\"" + std::string(inside) + "\"}";
    for (size_t split = 0; split <= text.size(); ++split) {
      Recorder sink;
      JsonScanner scanner(kSchema, sink);
      ASSERT_TRUE(scanner.feed(text.substr(0, split)) && scanner.feed(text) && scanner.finish());
      EXPECT_EQ(sink.events[1], "1 kind 3 [9," + std::to_string(text.size() - 1) + ") " +
                                    std::to_string(expected) + " 0");
    }
  }
}

const std::string kDocument =
    R"( {"model" : "m-\u00e9\ud83d\ude00", "prompt":["text \"quoted\" and \\", -12.5e+3, true, null],)"
    R"("messages":[{"role":"user","content":"Hello"},{"content":[{"type":"text"}]}, 17],)"
    R"("unknown":{"model":[{"x":[[]]}]},"tools":[{"f":{"a":0}}],"stream":false,"prompt":"again"} )";

TEST(JsonScanner, ResumesAtAnyOffset) {
  Recorder whole;
  JsonScanner reference(kSchema, whole);
  ASSERT_TRUE(reference.feed(kDocument) && reference.finish());
  for (size_t split = 0; split <= kDocument.size(); ++split) {
    Recorder grown, chunked;
    JsonScanner a(kSchema, grown), b(kSchema, chunked);
    const std::string part = kDocument.substr(0, split);  // bounds the read for the sanitizer
    ASSERT_TRUE(a.feed(part) && a.feed(kDocument) && a.finish());
    EXPECT_EQ(grown.events, whole.events) << split;
    EXPECT_EQ(grown.texts, whole.texts) << split;
    ASSERT_TRUE(b.feed_chunk(part) && b.feed_chunk(kDocument.substr(split)) && b.finish());
    EXPECT_EQ(chunked.events, whole.events) << split;
    EXPECT_EQ(chunked.texts[kModel], whole.texts[kModel]) << split;
    EXPECT_EQ(chunked.texts[kPromptItem], whole.texts[kPromptItem]) << split;
  }
}

TEST(JsonScanner, ReadsSingleBytes) {
  Recorder whole, bytes;
  JsonScanner a(kSchema, whole), b(kSchema, bytes);
  ASSERT_TRUE(a.feed(kDocument) && a.finish());
  for (char c : kDocument) ASSERT_TRUE(b.feed_chunk({}) && b.feed_chunk({&c, 1}));
  ASSERT_TRUE(b.finish());
  EXPECT_EQ(bytes.events, whole.events);
  EXPECT_EQ(bytes.texts[kModel], whole.texts[kModel]);
}

TEST(JsonScanner, ErrorsStandAtTheSameOffsetHoweverTheBytesArrive) {
  for (size_t at = 0; at < kDocument.size(); ++at) {
    std::string text = kDocument;
    text[at] = '\x01';
    Recorder sink;
    JsonScanner whole(kSchema, sink), split(kSchema, sink);
    EXPECT_FALSE(whole.feed(text) && whole.finish());
    EXPECT_EQ(whole.error().offset, at);
    split.feed(text.substr(0, at));
    EXPECT_FALSE(split.feed(text) && split.finish());
    EXPECT_EQ(split.error().text(), whole.error().text());
  }
}

TEST(JsonScanner, AgreesWithSimdjsonOnMutatedDocuments) {
  Rng rng(7);
  simdjson::dom::parser parser;
  constexpr std::string_view kBytes = "{}[]\",:\\u0123e.+-tfn \n";
  for (int round = 0; round < 20000; ++round) {
    std::string text = kDocument;
    for (uint64_t edits = rng.below(3); edits-- > 0;) {
      const size_t at = rng.below(text.size());
      switch (rng.below(3)) {
        case 0:
          text[at] = kBytes[rng.below(kBytes.size())];
          break;
        case 1:
          text.erase(at, 1);
          break;
        case 2:
          text.insert(at, 1, kBytes[rng.below(kBytes.size())]);
          break;
      }
    }
    const auto error = parser.parse(text).error();
    if (error == simdjson::NUMBER_ERROR || error == simdjson::STRING_ERROR) continue;
    ASSERT_EQ(accepts(text), error == simdjson::SUCCESS) << text << "\n" << error;
  }
}

}  // namespace
}  // namespace llmd::codec
