#include "codec/cel.h"

#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <fstream>

namespace llmd::codec {
namespace {

struct Details final : CelMap {
  std::optional<CelValue> find(std::string_view key) const override {
    return key == "cached_tokens" ? std::optional<CelValue>(5.0) : std::nullopt;
  }
  size_t size() const override { return 1; }
};

/// The variable `usage` of the vectors.
struct Usage final : CelMap {
  std::optional<CelValue> find(std::string_view key) const override {
    if (key == "prompt_tokens") return 7.0;
    if (key == "completion_tokens") return 10.0;
    if (key == "total_tokens") return 17.0;
    if (key == "prompt_tokens_details") return static_cast<const CelMap*>(&details);
    if (key == "name") return std::string_view("é");
    return std::nullopt;
  }
  size_t size() const override { return 5; }
  Details details;
};

const Usage kUsage;
constexpr std::string_view kNames[] = {"usage"};

std::string number_text(auto number) {
  std::array<char, 40> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

std::string describe(const CelValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "bool true" : "bool false";
  if (const auto* i = std::get_if<int64_t>(&value)) return "int " + number_text(*i);
  if (const auto* u = std::get_if<uint64_t>(&value)) return "uint " + number_text(*u);
  if (const auto* d = std::get_if<double>(&value)) return "double " + number_text(*d);
  if (const auto* s = std::get_if<std::string_view>(&value)) return "string " + std::string(*s);
  return std::holds_alternative<const CelMap*>(value) ? "map" : "null";
}

std::string evaluated(std::string_view text) {
  const auto compiled = Cel::compile(text, kNames);
  if (!compiled) return "refused";
  Arena arena;
  const CelValue variables[] = {static_cast<const CelMap*>(&kUsage)};
  const auto value = compiled->evaluate(variables, arena);
  return value ? describe(*value) : "error";
}

std::string error_of(std::string_view text) {
  const auto compiled = Cel::compile(text, kNames);
  return compiled ? "no error" : compiled.error().message;
}

TEST(Cel, FollowsTheVectors) {
  std::ifstream file(LLMD_SOURCE_DIR "/tests/data/cel/vectors.txt");
  size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t arrow = line.rfind(" => ");
    ASSERT_NE(arrow, line.npos) << line;
    EXPECT_EQ(evaluated(line.substr(0, arrow)), line.substr(arrow + 4)) << line;
    ++count;
  }
  EXPECT_GT(count, 100u);
}

TEST(Cel, SaysWhereAndWhy) {
  const struct {
    std::string_view text, error;
  } kCases[] = {
      {"usage.a +", "at character 10: a value is expected"},
      {"usag.a", "at character 1: there is no variable 'usag' (did you mean 'usage'?)"},
      {"sizes('a')",
       "at character 6: there is no function 'sizes' in the subset (did you mean "
       "'size'?)"},
      {"int()", "at character 4: 'int' does not take 0 arguments"},
      {"has(usage)", "at character 4: 'has' takes a field, as in has(a.b)"},
      {"[1]", "at character 1: lists are understood only after 'in'"},
      {"1 $ 2", "at character 3: nothing of the language starts like this"},
      {"1 + 1.0", "at character 8: no such overload: '+'"},
      {"''' '''", "at character 2: triple quotes are not part of the subset"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.text), c.error) << c.text;
}

TEST(Cel, FaultsNameWhatIsMissing) {
  Arena arena;
  const CelValue variables[] = {static_cast<const CelMap*>(&kUsage)};
  const auto fault = [&](std::string_view text) {
    const auto compiled = Cel::compile(text, kNames);
    const auto value = compiled->evaluate(variables, arena);
    return value ? "a value" : value.error().text();
  };
  EXPECT_EQ(fault("usage.nothing"), "no such key: 'nothing'");
  EXPECT_EQ(fault("usage.prompt_tokens + 1"), "no such overload: '+'");
  EXPECT_EQ(fault("1 / 0"), "division by zero: '/'");
}

TEST(Cel, BoundsItsInput) {
  const auto nested = [](size_t n) { return std::string(n, '(') + "1" + std::string(n, ')'); };
  EXPECT_EQ(evaluated(nested(kCelDepthMax - 1)), "int 1");
  EXPECT_EQ(evaluated(nested(kCelDepthMax)), "refused");
  EXPECT_EQ(evaluated(nested(2000)), "refused");
  std::string chain = "1";
  for (int i = 0; i < 200; ++i) chain += "+1";
  EXPECT_EQ(evaluated(chain), "refused");
  EXPECT_EQ(evaluated(std::string(100, '!') + "true"), "refused");
  EXPECT_EQ(evaluated("'" + std::string(kCelBytesMax, 'x') + "'"), "refused");
}

TEST(Cel, DoesNotAllocateBesidesItsArena) {
  const auto compiled = Cel::compile("usage.prompt_tokens * 2.0 > 3.0 ? 'a' + 'b' : 'c'", kNames);
  ASSERT_TRUE(compiled);
  Arena arena;
  const size_t before = arena.capacity();
  const CelValue variables[] = {static_cast<const CelMap*>(&kUsage)};
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(std::get<std::string_view>(*compiled->evaluate(variables, arena)), "ab");
  EXPECT_EQ(arena.capacity(), before);
}

}  // namespace
}  // namespace llmd::codec
