#include "codec/json_rename.h"

#include <gtest/gtest.h>

namespace llmd::codec {
namespace {

std::string rename(std::string_view text, size_t step, std::string_view from = "big-v2",
                   std::string_view to = "big") {
  JsonRename rename("model", from, to);
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    out += rename.pass(std::string(text.substr(at, step)), at + step >= text.size());
  return out;
}

TEST(JsonRename, ReplacesTheValueHoweverTheTextIsCut) {
  const struct {
    std::string_view text, expected;
  } kCases[] = {
      {R"({"id":"x","model":"big-v2","choices":[]})", R"({"id":"x","model":"big","choices":[]})"},
      {"data: {\"model\": \"big-v2\"}\n\ndata: {\"model\" :\t\"big-v2\"}\n\n",
       "data: {\"model\": \"big\"}\n\ndata: {\"model\" :\t\"big\"}\n\n"},
      // Others' values, other members, texts that speak of it.
      {R"({"model":"big-v22"})", R"({"model":"big-v22"})"},
      {R"({"model":"big-v"})", R"({"model":"big-v"})"},
      {R"({"models":"big-v2"})", R"({"models":"big-v2"})"},
      {R"({"text":"\"model\":\"big-v2\""})", R"({"text":"\"model\":\"big-v2\""})"},
      {R"({"model":null,"model":"big-v2"})", R"({"model":null,"model":"big"})"},
      {R"(""model"model":"big-v2")", R"(""model"model":"big")"},
      {R"("model""model":"big-v2")", R"("model""model":"big")"},
      {R"({"model":"big-v)", R"({"model":"big-v)"},
      {R"({"mod)", R"({"mod)"},
      {"", ""},
  };
  for (const auto& c : kCases)
    for (size_t step = 1; step <= c.text.size() + 1; ++step)
      EXPECT_EQ(rename(c.text, step), c.expected) << step;
}

TEST(JsonRename, LetsGoOfWhatItHeldAtTheEnd) {
  JsonRename rename("model", "a", "b");
  EXPECT_EQ(rename.pass("{\"model\":\"", false), "{");
  EXPECT_EQ(rename.pass("", true), "\"model\":\"");
}

TEST(JsonRename, EscapesBothNames) {
  EXPECT_EQ(rename(R"({"model":"a\"b"})", 3, "a\"b", "c\\d"), R"({"model":"c\\d"})");
}

TEST(JsonRename, CopiesNothingWhereNothingChanges) {
  JsonRename rename("model", "a", "b");
  const std::string text = R"({"object":"chat.completion.chunk","choices":[{"delta":{}}]})";
  EXPECT_EQ(rename.pass(text, false).data(), text.data());
  EXPECT_EQ(rename.pass("", true), "");
}

TEST(JsonRename, HoldsABoundedPiece) {
  JsonRename rename("model", "a", "b");
  const std::string text = "\"model\"" + std::string(100'000, ' ');
  EXPECT_EQ(rename.pass(text, false).size(), text.size());
}

}  // namespace
}  // namespace llmd::codec
