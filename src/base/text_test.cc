#include "base/text.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <limits>

namespace llmd {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;

TEST(Text, ComparesWithoutCase) {
  EXPECT_TRUE(equals_ignore_case("X-Request-ID", "x-request-id"));
  EXPECT_TRUE(equals_ignore_case("", ""));
  EXPECT_FALSE(equals_ignore_case("abc", "abd"));
  EXPECT_FALSE(equals_ignore_case("abc", "abcd"));
  EXPECT_FALSE(equals_ignore_case("[", "{")) << "only letters have a case";
}

TEST(Text, ComparesEveryPairOfBytesByLettersAlone) {
  const auto lower = [](unsigned c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; };
  for (const size_t place : {0, 7, 8})
    for (unsigned c = 0; c < 256; ++c)
      for (unsigned d = 0; d < 256; ++d) {
        std::string a = "Header-No", b = "hEADER-nO";
        a[place] = static_cast<char>(c);
        b[place] = static_cast<char>(d);
        ASSERT_EQ(equals_ignore_case(a, b), lower(c) == lower(d)) << place << ' ' << c << ' ' << d;
      }
}

TEST(Text, TrimsWhiteSpaceAtBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, LowersAsciiOnly) {
  EXPECT_EQ(to_lower("AbÄ9"), "abÄ9");
}

TEST(NearestName, FindsLikelyMisspellings) {
  constexpr std::string_view kNames[] = {"queue-scorer", "prefix-cache-scorer", "kv-cache-scorer",
                                         "ttl"};
  EXPECT_EQ(nearest_name("queue-scoer", kNames), "queue-scorer");
  EXPECT_EQ(nearest_name("Queue-Scorer", kNames), "queue-scorer");
  EXPECT_EQ(nearest_name("prefix-scorer", kNames), "prefix-cache-scorer");
  EXPECT_EQ(nearest_name("tlt", kNames), "ttl");
  EXPECT_EQ(nearest_name("timeout-of-everything", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(NearestName, SuggestionIsReadyForAnErrorMessage) {
  constexpr std::string_view kNames[] = {"port"};
  EXPECT_EQ(suggestion("prot", kNames), " (did you mean 'port'?)");
  EXPECT_EQ(suggestion("address", kNames), "");
}

TEST(Duration, ReadsGoSyntax) {
  const struct {
    std::string_view text;
    Nanos value;
  } kCases[] = {
      {"0", 0ns},
      {"300ms", 300ms},
      {"1m30s", 90s},
      {"1.5h", 90min},
      {"-2s", -2s},
      {"+5us", 5us},
      {"5µs", 5us},
      {"5μs", 5us},
      {".5s", 500ms},
      {"1.s", 1s},
      {"1h2m3s4ms5us6ns", 1h + 2min + 3s + 4ms + 5us + 6ns},
      {"0.000000001s", 1ns},
      {"0s", 0ns},
      {"9223372036854775807ns", Nanos(std::numeric_limits<int64_t>::max())},
  };
  for (const auto& c : kCases) {
    const auto result = parse_duration(c.text);
    ASSERT_TRUE(result) << c.text << ": " << result.error().message;
    EXPECT_EQ(*result, c.value) << c.text;
  }
}

TEST(Duration, SaysWhatIsWrong) {
  const struct {
    std::string_view text, why;
  } kCases[] = {
      {"", "empty"},
      {"-", "empty"},
      {"5", "unit missing (ns, us, ms, s, m, h)"},
      {"5 s", "unknown unit ' s' (ns, us, ms, s, m, h)"},
      {"5d", "unknown unit 'd' (ns, us, ms, s, m, h)"},
      {"ms", "a number must stand before each unit"},
      {".s", "a number must stand before each unit"},
      {"1.2.3s", "unit missing (ns, us, ms, s, m, h)"},
      {"9223372036854775808ns", "out of range"},
      {"3000000h", "out of range"},
      {"99999999999999999999s", "too many digits"},
  };
  for (const auto& c : kCases) {
    const auto result = parse_duration(c.text);
    ASSERT_FALSE(result) << c.text;
    EXPECT_EQ(result.error().message,
              "invalid duration '" + std::string(c.text) + "': " + std::string(c.why));
  }
}

TEST(Duration, PrintsTheShortestSpelling) {
  const struct {
    Nanos value;
    std::string_view text;
  } kCases[] = {
      {0s, "0s"},       {400ms, "400ms"},          {90s, "1m30s"},
      {1h, "1h"},       {1h + 5s, "1h5s"},         {1500ms, "1.5s"},
      {1us, "1us"},     {1500ns, "1.5us"},         {7ns, "7ns"},
      {-90s, "-1m30s"}, {1ms + 1ns, "1.000001ms"}, {61s + 20ms, "1m1.02s"},
  };
  for (const auto& c : kCases) EXPECT_EQ(format_duration(c.value), c.text);
}

TEST(Duration, PrintedFormReadsBack) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const Nanos value(static_cast<int64_t>(rng.next() >> (1 + rng.below(63))));
    const auto back = parse_duration(format_duration(value));
    ASSERT_TRUE(back) << format_duration(value);
    EXPECT_EQ(*back, value) << format_duration(value);
  }
  const Nanos least(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(format_duration(least), "-2562047h47m16.854775808s");
}

TEST(Quantity, ReadsKubernetesSyntax) {
  const struct {
    std::string_view text;
    int64_t value;
  } kCases[] = {
      {"0", 0},
      {"10k", 10'000},
      {"1Gi", int64_t{1} << 30},
      {"1e3", 1000},
      {"1E3", 1000},
      {"1.5Gi", 3LL << 29},
      {"2E", 2'000'000'000'000'000'000},
      {"7Ei", 7LL << 60},
      {"100m", 1},
      {"1500m", 2},
      {"1.1", 2},
      {"+5", 5},
      {"12e-1", 2},
      {"0.5Ki", 512},
      {"1n", 1},
      {"1e+2", 100},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
  };
  for (const auto& c : kCases) {
    const auto result = parse_quantity(c.text);
    ASSERT_TRUE(result) << c.text << ": " << result.error().message;
    EXPECT_EQ(*result, c.value) << c.text;
  }
}

TEST(Quantity, RefusesEverythingElse) {
  for (const auto text : {"", "-1", "Gi", "1 Gi", "1KB", "1gi", "1e", "1ee3", "1e99", "8Ei",
                          "9223372036854775808", "0x10", "1.2.3", "99999999999999999999"})
    EXPECT_FALSE(parse_quantity(text)) << text;
}

TEST(Quantity, NamesTheSuffixesItKnows) {
  EXPECT_EQ(
      parse_quantity("1KB").error().message,
      "invalid quantity '1KB': unknown suffix 'KB' (k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei)");
}

TEST(Number, MustFillTheWholeText) {
  EXPECT_EQ(parse_int("-42"), -42);
  EXPECT_EQ(parse_int("42 "), std::nullopt);
  EXPECT_EQ(parse_int(""), std::nullopt);
  EXPECT_EQ(parse_int("99999999999999999999"), std::nullopt);
  EXPECT_EQ(parse_double("1e-3"), 0.001);
  EXPECT_EQ(parse_double("1.5x"), std::nullopt);
  EXPECT_EQ(parse_double("inf"), std::nullopt);
  EXPECT_EQ(parse_double("nan"), std::nullopt);
}

TEST(JsonEscape, EscapesWhatJsonMust) {
  const struct {
    std::string_view raw, escaped;
  } kCases[] = {
      {"plain", "plain"},
      {"a\"b\\c", "a\\\"b\\\\c"},
      {"\n\r\t\x01\x1f"sv, "\\n\\r\\t\\u0001\\u001f"},
      {"\0"sv, "\\u0000"},
      {"é€😀", "é€😀"},
      {"\xff", "\uFFFD"},
      {"a\xC3", "a\uFFFD"},
      {"\xC0\x80", "\uFFFD\uFFFD"},            // overlong
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},  // surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\x7f", "\x7f"},
  };
  for (const auto& c : kCases) {
    std::string out;
    append_json_escaped(out, c.raw);
    EXPECT_EQ(out, c.escaped);
  }
}

TEST(JsonEscape, SeesASpecialByteWhereverItStands) {
  for (size_t size = 1; size <= 20; ++size)
    for (size_t place = 0; place < size; ++place)
      for (const auto& [raw, escaped] : {std::pair{'"', "\\\""},
                                         {'\\', "\\\\"},
                                         {'\x1f', "\\u001f"},
                                         {'\xff', "\uFFFD"},
                                         {' ', " "},
                                         {'~', "~"}}) {
        std::string text(size, 'a');
        text[place] = raw;
        std::string out;
        append_json_escaped(out, text);
        ASSERT_EQ(out, std::string(place, 'a') + escaped + std::string(size - place - 1, 'a'));
      }
}

TEST(Uuid, HasVersionAndVariant) {
  EXPECT_EQ(uuid_v4(0, 0), "00000000-0000-4000-8000-000000000000");
  EXPECT_EQ(uuid_v4(~0ull, ~0ull), "ffffffff-ffff-4fff-bfff-ffffffffffff");
  EXPECT_EQ(uuid_v4(0x0123456789abcdef, 0x8123456789abcdef),
            "01234567-89ab-4def-8123-456789abcdef");
}

}  // namespace
}  // namespace llmd
