#include "codec/node.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::codec {
namespace {

Node parse(std::string_view text) {
  auto node = parse_yaml(text, "f.yaml");
  EXPECT_TRUE(node) << (node ? "" : node.error().message);
  return node ? *node : Node{};
}

std::string error_of(std::string_view text, size_t max_bytes = 1 << 20) {
  auto node = parse_yaml(text, "f.yaml", max_bytes);
  EXPECT_FALSE(node) << text;
  return node ? "" : node.error().message;
}

TEST(ParseYaml, KeepsJsonTypesOfScalars) {
  using enum Node::Type;
  const struct {
    std::string_view text;
    Node::Type type;
    std::string_view value;
  } kCases[] = {
      {"~", kNull, ""},
      {"null", kNull, ""},
      {"true", kBool, "true"},
      {"False", kBool, "False"},
      {"yes", kString, "yes"},
      {"17", kInt, "17"},
      {"-3", kInt, "-3"},
      {"0.25", kFloat, "0.25"},
      {"1e3", kFloat, "1e3"},
      {".5", kFloat, ".5"},
      {"1.", kFloat, "1."},
      {".inf", kFloat, ".inf"},
      {"-.inf", kFloat, "-.inf"},
      {".nan", kFloat, ".nan"},
      {"0x10", kString, "0x10"},
      {"1e", kString, "1e"},
      {".", kString, "."},
      {"-", kList, ""},
      {"30s", kString, "30s"},
      {"\"50\"", kString, "50"},
      {"'true'", kString, "true"},
      {"''", kString, ""},
      {"2Gi", kString, "2Gi"},
      {"http://localhost:8000", kString, "http://localhost:8000"},
  };
  for (const auto& c : kCases) {
    const Node node = parse(c.text);
    EXPECT_EQ(type_name(node.type), type_name(c.type)) << c.text;
    EXPECT_EQ(node.text, c.value) << c.text;
  }
}

TEST(ParseYaml, RemembersLinesAndOrder) {
  const Node root = parse("b: 1\na:\n  - x\n  - {k: v}\n");
  ASSERT_EQ(root.members.size(), 2u);
  EXPECT_EQ(root.members[0].first, "b");
  EXPECT_EQ(root.find("b")->where(), "f.yaml:1");
  EXPECT_EQ(root.find("a")->items[0].line, 3);
  EXPECT_EQ(root.find("a")->items[1].find("k")->line, 4);
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(ParseYaml, ReadsJson) {
  const Node root =
      parse("{\"a\":1,\"b\":[true,null,\"x\\/\\u00e9\\n\"],\n\t\"c\":{\"d\":-1.5e3}}");
  EXPECT_EQ(root.find("a")->type, Node::Type::kInt);
  EXPECT_EQ(root.find("b")->items[1].type, Node::Type::kNull);
  EXPECT_EQ(root.find("b")->items[2].text, "x/\xc3\xa9\n");
  EXPECT_EQ(root.find("c")->find("d")->type, Node::Type::kFloat);
}

TEST(ParseYaml, ReadsFlowSyntaxOfConfigurations) {
  const Node root = parse(R"(featureGates: [flowControl]
plugins:
- {type: token-producer, parameters: {modelName: org/model, vllm: {url: "http://localhost:8000"}}}
- {name: strict, type: prefix-cache-affinity-filter, parameters: {affinityThreshold: 0.99}}
- type: queue-scorer
flowControl:
  defaultRequestTTL: 30s
  defaultNegativePriorityBand: {maxRequests: "50"}
  priorityBands: [{priority: 10, maxRequests: "2k", fairnessPolicyRef: round-robin-fairness-policy}]
schedulingProfiles:
- {name: decode,  plugins: [{pluginRef: decode-filter},  {pluginRef: queue-scorer, weight: 2}]}
)");
  EXPECT_EQ(root.find("plugins")->items[0].find("parameters")->find("vllm")->find("url")->text,
            "http://localhost:8000");
  EXPECT_EQ(root.find("flowControl")->find("priorityBands")->items[0].find("priority")->type,
            Node::Type::kInt);
  EXPECT_EQ(
      root.find("flowControl")->find("defaultNegativePriorityBand")->find("maxRequests")->type,
      Node::Type::kString);
  EXPECT_EQ(root.find("schedulingProfiles")->items[0].find("plugins")->items.size(), 2u);
}

TEST(ParseYaml, EmptyDocumentIsNull) {
  for (std::string_view text : {"", "\n", "# only a comment\n", "---\n"}) {
    const Node root = parse(text);
    EXPECT_TRUE(root.is_null());
    EXPECT_EQ(root.file, "f.yaml");
  }
}

TEST(ParseYaml, RefusesWithFileAndLine) {
  const struct {
    std::string_view text;
    std::string_view error;
  } kCases[] = {
      {"a: 1\nb: 2\na: 3\n", "f.yaml:3: duplicate key 'a'"},
      {"a: &x 1\n", "f.yaml:1: anchors (&x) are not supported"},
      {"a: &x\n  b: 1\nc: *x\n", "f.yaml:1: anchors (&x) are not supported"},
      {"a: !!str 1\n", "f.yaml:1: tags (tag:yaml.org,2002:str) are not supported"},
      {"a: 1\n---\nb: 2\n", "f.yaml:3: more than one document"},
      {"[a]: 1\n", "f.yaml:1: a map key must be a string, not a list or map"},
      {"~: 1\n", "f.yaml:1: a map key must be a string, not null"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.text), c.error);
}

TEST(ParseYaml, SyntaxErrorsNameTheLine) {
  EXPECT_EQ(error_of("a: 1\nb: [1, 2\n").substr(0, 7), "f.yaml:");
  EXPECT_EQ(error_of("a: 1\n b: 2\n").substr(0, 9), "f.yaml:2:");
  EXPECT_EQ(error_of("{a: 1").find('\n'), std::string::npos);
  EXPECT_EQ(error_of(std::string_view("a\0b", 3)), "f.yaml:1: a zero byte is no YAML");
}

TEST(ParseYaml, LimitsNestingAndSize) {
  EXPECT_TRUE(parse_yaml(std::string(64, '[') + std::string(64, ']'), "f"));
  EXPECT_EQ(error_of(std::string(65, '[') + std::string(65, ']')),
            "f.yaml:1: nesting deeper than 64 levels");
  EXPECT_EQ(error_of("abcde", 4), "f.yaml:1: document of 5 bytes exceeds the limit of 4");
}

}  // namespace
}  // namespace llmd::codec
