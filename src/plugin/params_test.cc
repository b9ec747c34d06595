#include "plugin/params.h"

#include <gtest/gtest.h>

#include <utility>

namespace llmd::plugin {
namespace {

struct Inner {
  int64_t block_size = 16;
  std::string mode = "a";
};
struct Values {
  bool on = true;
  int64_t count = 7;
  int32_t small = 3;
  uint16_t port = 8000;
  double ratio = 0.5;
  std::string text = "x";
  Nanos wait = std::chrono::milliseconds(400);
  std::vector<std::string> names = {"one"};
  std::map<std::string, std::string> labels;
  std::optional<int64_t> cap;
  Inner inner = {.block_size = 64};
  std::optional<Inner> maybe;
  std::vector<Inner> engines;
};

const Params<Inner> kInner = {
    field("blockSize", &Inner::block_size, "tokens", "Tokens of a block.").positive(),
    field("mode", &Inner::mode, "", "How.").one_of({"alpha", "beta"}),
};
const Params<Values> kTable = {
    field("on", &Values::on, "", "A switch."),
    field("count", &Values::count, "requests", "A count.").min(0),
    field("small", &Values::small, "", "A small number."),
    field("port", &Values::port, "", "A port.").min(1),
    field("ratio", &Values::ratio, "", "A share.").min(0).max(1),
    field("text", &Values::text, "", "A text."),
    field("wait", &Values::wait, "", "A duration.").positive(),
    field("names", &Values::names, "", "A list.").deprecated(),
    field("labels", &Values::labels, "", "A map."),
    field("cap", &Values::cap, "", "Absent by default.").min(1),
    object_field("inner", &Values::inner, kInner, "An object."),
    object_field("maybe", &Values::maybe, kInner, "An object that may be absent."),
    list_field("engines", &Values::engines, kInner, "Objects."),
};

Result<Values> parse(std::string_view yaml) {
  const auto node = codec::parse_yaml(yaml, "f.yaml");
  EXPECT_TRUE(node) << (node ? "" : node.error().message);
  return kTable.parse(&*node);
}

std::string error_of(std::string_view yaml) {
  const auto values = parse(yaml);
  return values ? "no error" : values.error().message;
}

TEST(Params, KeepsDefaultsWithoutADocument) {
  const auto values = kTable.parse(nullptr);
  ASSERT_TRUE(values);
  EXPECT_EQ(kTable.print(*values),
            R"({"on":true,"count":7,"small":3,"port":8000,"ratio":0.5,"text":"x","wait":"400ms",)"
            R"("labels":{},"cap":null,"inner":{"blockSize":64,"mode":"a"},)"
            R"("maybe":null,"engines":[]})");
}

TEST(Params, PrintsCurrentNames) {
  struct Sizes {
    int64_t tokens = 16;
    int64_t size = 0;
    int64_t blocks = 8;
  };
  const auto fold = [](Sizes& sizes) -> Status {
    if (sizes.size < 0) return fail(Code::kBadRequest, "negative");
    if (sizes.size > 0) sizes.tokens = std::exchange(sizes.size, 0);
    return {};
  };
  const Params<Sizes> table(
      {field("tokens", &Sizes::tokens, "", ""), field("size", &Sizes::size, "", "").deprecated(),
       field("blocks", &Sizes::blocks, "", "").deprecated()},
      fold);
  const auto printed = [&](std::string_view yaml) {
    const auto node = codec::parse_yaml(yaml, "f.yaml");
    const auto values = table.parse(&*node);
    return values ? table.print(*values) : values.error().message;
  };
  EXPECT_EQ(printed("{}"), R"({"tokens":16})");
  EXPECT_EQ(printed("{size: 32}"), R"({"tokens":32})");
  EXPECT_EQ(printed("{blocks: 9}"), R"({"tokens":16,"blocks":9})") << "has no successor";
  EXPECT_EQ(printed("{size: -1}"), "negative");
}

TEST(Params, ReadsEveryType) {
  const auto values = parse(
      "{on: false, count: 0, small: -1, port: 65535, ratio: 1, text: '', wait: 1m30s, names: [], "
      "labels: {k: v}, cap: 5, inner: {mode: beta}, maybe: {}, engines: [{blockSize: 1}, {}]}");
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(kTable.print(*values),
            R"({"on":false,"count":0,"small":-1,"port":65535,"ratio":1,"text":"","wait":"1m30s",)"
            R"("names":[],"labels":{"k":"v"},"cap":5,"inner":{"blockSize":64,"mode":"beta"},)"
            R"("maybe":{"blockSize":16,"mode":"a"},"engines":[{"blockSize":1,"mode":"a"},)"
            R"({"blockSize":16,"mode":"a"}]})");
}

TEST(Params, MatchesNamesWithoutCase) {
  const auto values = parse("{COUNT: 10, Inner: {BLOCKSIZE: 4}}");
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->count, 10);
  EXPECT_EQ(values->inner.block_size, 4);
}

TEST(Params, LeavesDefaultsForNull) {
  const auto values = parse("{count: null, inner: ~}");
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->count, 7);
  EXPECT_EQ(values->inner.block_size, 64);
}

TEST(Params, RefusesWhatIsNotDeclared) {
  const struct {
    std::string_view yaml, error;
  } kCases[] = {
      {"cuont: 1", "f.yaml:1: parameter 'cuont': unknown (did you mean 'count'?)"},
      {"on: true\ninner:\n  blokSize: 1",
       "f.yaml:3: parameter 'inner.blokSize': unknown (did you mean 'blockSize'?)"},
      {"engines: [{}, {mood: 1}]",
       "f.yaml:1: parameter 'engines[1].mood': unknown (did you mean 'mode'?)"},
      {"{count: 1, COUNT: 2}", "f.yaml:1: parameter 'COUNT': given twice"},
      {"[1]", "f.yaml:1: parameters must be a map, not a list"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.yaml), c.error) << c.yaml;
}

TEST(Params, RefusesWrongTypes) {
  const struct {
    std::string_view yaml, error;
  } kCases[] = {
      {"count: \"2\"", "f.yaml:1: parameter 'count': must be an int, not \"2\" (a string)"},
      {"count: 2.0", "f.yaml:1: parameter 'count': must be an int, not 2.0 (a float)"},
      {"on: 1", "f.yaml:1: parameter 'on': must be a bool, not 1 (an int)"},
      {"text: 5", "f.yaml:1: parameter 'text': must be a string, not 5 (an int)"},
      {"ratio: '0.5'", "f.yaml:1: parameter 'ratio': must be a number, not \"0.5\" (a string)"},
      {"ratio: .inf", "f.yaml:1: parameter 'ratio': must be a finite number, not .inf"},
      {"wait: 5", "f.yaml:1: parameter 'wait': must be a duration such as \"5s\", not 5 (an int)"},
      {"wait: 5 s", "f.yaml:1: parameter 'wait': must be a duration such as \"5s\", not \"5 s\""},
      {"names: one", "f.yaml:1: parameter 'names': must be a list, not \"one\" (a string)"},
      {"names: [1]", "f.yaml:1: parameter 'names': must be a string, not 1 (an int)"},
      {"labels: {k: 1}", "f.yaml:1: parameter 'labels': 'k': must be a string, not 1 (an int)"},
      {"inner: 3", "f.yaml:1: parameter 'inner': must be a map, not 3"},
      {"engines: {}", "f.yaml:1: parameter 'engines': must be a list, not a map"},
      {"engines: [{}, 1]", "f.yaml:1: parameter 'engines': must be a map, not 1"},
      {"port: 65536", "f.yaml:1: parameter 'port': must be an int from 0 to 65535, not 65536"},
      {"count: 9223372036854775808",
       "f.yaml:1: parameter 'count': must be an int from -9223372036854775808 to "
       "9223372036854775807, not 9223372036854775808"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.yaml), c.error) << c.yaml;
}

TEST(Params, RefusesValuesOutOfBounds) {
  const struct {
    std::string_view yaml, error;
  } kCases[] = {
      {"count: -1", "f.yaml:1: parameter 'count': must be >= 0, not -1"},
      {"ratio: 1.5", "f.yaml:1: parameter 'ratio': must be <= 1, not 1.5"},
      {"wait: 0s", "f.yaml:1: parameter 'wait': must be > 0, not \"0s\""},
      {"cap: 0", "f.yaml:1: parameter 'cap': must be >= 1, not 0"},
      {"inner: {blockSize: 0}", "f.yaml:1: parameter 'inner.blockSize': must be > 0, not 0"},
      {"inner: {mode: bata}",
       "f.yaml:1: parameter 'inner.mode': must be one of 'alpha', 'beta', not \"bata\" (did you "
       "mean 'beta'?)"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.yaml), c.error) << c.yaml;
}

TEST(Params, DescribesItselfForDocs) {
  const auto infos = kTable.describe();
  ASSERT_EQ(infos.size(), 13u);
  EXPECT_EQ(infos[4].type, "float");
  EXPECT_EQ(infos[4].limits, ">= 0, <= 1");
  EXPECT_EQ(infos[6].type, "duration");
  EXPECT_EQ(infos[6].default_value, "\"400ms\"");
  EXPECT_TRUE(infos[7].deprecated);
  EXPECT_EQ(infos[9].type, "int");
  EXPECT_EQ(infos[9].default_value, "null");
  EXPECT_EQ(infos[12].fields.size(), 2u);
}

}  // namespace
}  // namespace llmd::plugin
