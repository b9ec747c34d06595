#include "config/document.h"

#include "gates.h"

#include <gtest/gtest.h>

namespace llmd::config {
namespace {

constexpr std::string_view kHead = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n";

Result<Document> parse(std::string_view body) {
  return parse_document(std::string(kHead).append(body), "f.yaml");
}

std::string error_of(std::string_view body) {
  const auto document = parse(body);
  return document ? "no error" : document.error().message;
}

TEST(Document, AcceptsThreeApiVersions) {
  for (const std::string version :
       {"llm-d.ai/v1", "llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1"}) {
    const auto document =
        parse_document("apiVersion: " + version + "\nkind: EndpointPickerConfig\n", "f.yaml");
    ASSERT_TRUE(document) << document.error().message;
    EXPECT_EQ(document->warnings.size(), version.starts_with("inference") ? 1u : 0u);
  }
}

TEST(Document, RefusesOtherVersionsAndKinds) {
  const struct {
    std::string_view text, error;
  } kCases[] = {
      {"apiVersion: llm-d.ai/v2\nkind: EndpointPickerConfig",
       "f.yaml:1: apiVersion: must be llm-d.ai/v1, llm-d.ai/v1alpha1 or "
       "inference.networking.x-k8s.io/v1alpha1, not 'llm-d.ai/v2'"},
      {"kind: EndpointPickerConfig",
       "f.yaml:1: apiVersion: must be llm-d.ai/v1, llm-d.ai/v1alpha1 or "
       "inference.networking.x-k8s.io/v1alpha1, not nothing"},
      {"apiVersion: llm-d.ai/v1\nkind: Pod",
       "f.yaml:2: kind: must be EndpointPickerConfig, not 'Pod'"},
      {"apiVersion: llm-d.ai/v1\nKind: EndpointPickerConfig",
       "f.yaml:1: kind: must be EndpointPickerConfig, not nothing"},
      {"", "f.yaml:1: must be a map with apiVersion and kind"},
  };
  for (const auto& c : kCases) {
    const auto document = parse_document(c.text, "f.yaml");
    ASSERT_FALSE(document) << c.text;
    EXPECT_EQ(document.error().message, c.error);
  }
}

TEST(Document, IsStrictAboutTheEnvelope) {
  const struct {
    std::string_view body, error;
  } kCases[] = {
      {"schedulingProfile: []",
       "f.yaml:3: unknown field 'schedulingProfile' (did you mean 'schedulingProfiles'?)"},
      {"Plugins: []", "f.yaml:3: unknown field 'Plugins' (did you mean 'plugins'?)"},
      {"plugins: [{type: a, paramters: {}}]",
       "f.yaml:3: plugins[0]: unknown field 'paramters' (did you mean 'parameters'?)"},
      {"plugins: {}", "f.yaml:3: plugins: must be a list, not a map"},
      {"plugins: [a]", "f.yaml:3: plugins[0]: must be a map, not a string"},
      {"plugins: [{name: a}]", "f.yaml:3: plugins[0]: type is missing"},
      {"plugins: [{type: 5}]", "f.yaml:3: plugins[0].type: must be a string, not 5 (an int)"},
      {"plugins:\n- {type: a}\n- {type: a}",
       "f.yaml:5: plugins[1]: the name 'a' is taken by the plugin at f.yaml:4; give one of them "
       "another name"},
      {"schedulingProfiles: [{plugins: []}]", "f.yaml:3: schedulingProfiles[0]: name is missing"},
      {"schedulingProfiles: [{name: a, plugins: [{weight: 1}]}]",
       "f.yaml:3: schedulingProfiles[0].plugins[0]: pluginRef is missing"},
      {"schedulingProfiles: [{name: a, plugins: [{pluginRef: ''}]}]",
       "f.yaml:3: schedulingProfiles[0].plugins[0].pluginRef: must not be empty"},
      {"schedulingProfiles: [{name: a}, {name: a}]",
       "f.yaml:3: schedulingProfiles[1]: the name 'a' is taken by the profile at f.yaml:3"},
      {"dataLayer: {sources: [{pluginRef: a, extractors: [{plugin: b}]}]}",
       "f.yaml:3: dataLayer.sources[0].extractors[0]: unknown field 'plugin' (did you mean "
       "'pluginRef'?)"},
      {"dataLayer: {injectDefaults: 'yes'}",
       "f.yaml:3: dataLayer.injectDefaults: must be a bool, not \"yes\" (a string)"},
      {"requestHandler: {parser: {}}",
       "f.yaml:3: requestHandler: unknown field 'parser' (did you mean 'parsers'?)"},
      {"flowControl: {priorityBands: [{priority: 1}, {priority: 1}]}",
       "f.yaml:3: flowControl.priorityBands[1]: duplicate priority level 1"},
      {"flowControl: {defaultRequestTTL: -1s}",
       "f.yaml:3: flowControl.defaultRequestTTL: must not be negative, not -1s"},
      {"flowControl: {maxBytes: {}}",
       "f.yaml:3: flowControl.maxBytes: must be a quantity such as \"1Gi\", not a map"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.body), c.error) << c.body;
}

TEST(Document, RefusesDuplicateKeys) {
  EXPECT_NE(error_of("plugins: []\nplugins: []"), "no error");
}

TEST(Document, RefusesBadWeights) {
  for (const std::string_view weight : {"-1", "-0.5", ".nan", ".inf", "-.inf", "'1'", "true"}) {
    const std::string error = error_of(
        "schedulingProfiles: [{name: a, plugins: [{pluginRef: b, weight: " + std::string(weight) +
        "}]}]");
    EXPECT_TRUE(error.starts_with("f.yaml:3: schedulingProfiles[0].plugins[0].weight: must "))
        << error;
  }
}

TEST(Document, KeepsWhatItReads) {
  const auto document = parse(R"(
plugins: [{type: a}, {name: b, type: c, parameters: {x: 1}}]
schedulingProfiles: [{name: p, plugins: [{pluginRef: a, weight: 0}, {pluginRef: b}]}]
dataLayer:
  injectDefaults: false
  sources: [{pluginRef: s, extractors: [{pluginRef: e}]}]
  discovery: {pluginRef: d}
flowControl:
  maxBytes: 2Gi
  maxRequests: 50
  defaultRequestTTL: 30s
  saturationDetector: {pluginRef: det}
  defaultNegativePriorityBand: {maxRequests: "50"}
  priorityBands: [{priority: 10, maxRequests: 2k, fairnessPolicyRef: f}]
requestHandler: {parsers: [{pluginRef: x}, {pluginRef: y}]}
)");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->plugins[0].name, "a");
  EXPECT_FALSE(document->plugins[0].parameters);
  EXPECT_EQ(document->plugins[1].type, "c");
  EXPECT_TRUE(document->plugins[1].parameters);
  EXPECT_EQ(document->profiles[0].plugins[0].weight, 0.0);
  EXPECT_FALSE(document->profiles[0].plugins[1].weight);
  EXPECT_FALSE(document->data_layer.inject_defaults);
  EXPECT_EQ(document->data_layer.sources[0].extractors[0].name, "e");
  EXPECT_EQ(document->data_layer.discovery->name, "d");
  EXPECT_EQ(document->flow_control.bytes_max, 2ll << 30);
  EXPECT_EQ(document->flow_control.requests_max, 50);
  EXPECT_EQ(document->flow_control.default_request_ttl, std::chrono::seconds(30));
  EXPECT_EQ(document->flow_control.default_negative_band->requests_max, 50);
  EXPECT_EQ(document->flow_control.bands[0].requests_max, 2000);
  EXPECT_EQ(document->flow_control.saturation_detector->name, "det");
  EXPECT_EQ(document->flow_control.given.size(), 5u);
  EXPECT_EQ(document->parsers[1].name, "y");
}

TEST(Document, FoldsDeprecatedFieldsUnlessTheNewOnesAreSet) {
  const auto old = parse("saturationDetector: {pluginRef: a}\nparser: {pluginRef: b}");
  ASSERT_TRUE(old) << old.error().message;
  EXPECT_EQ(old->flow_control.saturation_detector->name, "a");
  EXPECT_EQ(old->parsers[0].name, "b");
  EXPECT_EQ(old->warnings,
            (std::vector<std::string>{
                "f.yaml:3: saturationDetector is deprecated; use flowControl.saturationDetector",
                "f.yaml:4: parser is deprecated; use requestHandler.parsers"}));

  const auto both = parse(
      "saturationDetector: {pluginRef: a}\nparser: {pluginRef: b}\n"
      "flowControl: {saturationDetector: {pluginRef: c}}\n"
      "requestHandler: {parsers: [{pluginRef: d}]}");
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->flow_control.saturation_detector->name, "c");
  ASSERT_EQ(both->parsers.size(), 1u);
  EXPECT_EQ(both->parsers[0].name, "d");
}

TEST(Document, ParsesTheBuiltInDefault) {
  const auto document = parse_document(default_document(), "default");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->plugins.size(), 5u);
  EXPECT_EQ(document->profiles[0].plugins[2].weight, 3.0);
  EXPECT_TRUE(document->warnings.empty());
}

TEST(Gates, FollowTheVectors) {
  const struct {
    std::string_view entry;
    std::optional<bool> flow_control;  // empty: refused
  } kCases[] = {
      {"flowControl", true},        {"flowControl=true", true},
      {"flowControl=FALSE", false}, {"flowControl= T ", true},
      {"flowControl=1", true},      {"flowControl=f", false},
      {"flowControl=1=junk", true}, {"flowControl =true", {}},
      {" flowControl", {}},         {"flowControl=yes", {}},
      {"flowControl=", {}},         {"dataLayer", {}},
      {"flowcontrol", {}},          {"", {}},
  };
  for (const auto& c : kCases) {
    Gates gates = default_gates();
    const auto status = apply_gate(c.entry, gates);
    EXPECT_EQ(status.has_value(), c.flow_control.has_value()) << c.entry;
    EXPECT_EQ(gates[0].second, c.flow_control.value_or(false)) << c.entry;
  }
}

TEST(Gates, LetLaterEntriesOverride) {
  const auto document = parse("featureGates: [flowControl, flowControl=false]");
  ASSERT_TRUE(document);
  EXPECT_FALSE(document->gate("flowControl"));
  EXPECT_TRUE(document->gate("haPopulateNonLeaderDatastore"));
}

TEST(Gates, NameTheNearestInErrors) {
  EXPECT_EQ(error_of("featureGates:\n- flowControll"),
            "f.yaml:4: featureGates[0]: unknown feature gate 'flowControll' (did you mean "
            "'flowControl'?)");
}

TEST(ReadDocument, NamesThePath) {
  const auto text = read_document("/nonexistent/config.yaml");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message,
            "/nonexistent/config.yaml: cannot be read: No such file or directory");
}

}  // namespace
}  // namespace llmd::config
