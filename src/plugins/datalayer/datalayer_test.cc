#include "fleet/metrics_source.h"
#include "plugin/registry.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace llmd::plugins {

const plugin::Descriptor& core_metrics_extractor();
const plugin::Descriptor& metrics_data_source();
const plugin::Descriptor& dcgm_data_source();
const plugin::Descriptor& dcgm_extractor();
const plugin::Descriptor& multicluster_metrics_data_source();
const plugin::Descriptor& multicluster_metrics_extractor();

namespace {

class DataLayerTest : public testing::Test {
 protected:
  Result<plugin::Made> make(const plugin::Descriptor& descriptor, std::string_view yaml) {
    const plugin::Context context{"p", state_, metrics_, clock_};
    const auto node = codec::parse_yaml(yaml, "f.yaml");
    EXPECT_TRUE(node);
    return registry_.make(descriptor, context, &*node);
  }
  std::string error_of(const plugin::Descriptor& descriptor, std::string_view yaml) {
    const auto made = make(descriptor, yaml);
    return made ? "no error" : made.error().message;
  }

  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  plugin::Registry registry_{{}};
};

TEST_F(DataLayerTest, SourceHasTheDocumentedDefaults) {
  const auto made = make(metrics_data_source(), "{}");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->parameters,
            R"({"scheme":null,"path":"/metrics","port":null,"insecureSkipVerify":true,)"
            R"("caCertPath":"","clientCertPath":"","clientKeyPath":"","interval":null})");
  const auto& options = dynamic_cast<fleet::MetricsSource&>(*made->plugin).options();
  EXPECT_EQ(options.path, "/metrics");
  EXPECT_FALSE(options.port);
  EXPECT_FALSE(options.interval);
}

TEST_F(DataLayerTest, SourceTakesItsParameters) {
  const auto made = make(metrics_data_source(), "{path: /m, port: 9400, interval: 1s}");
  ASSERT_TRUE(made) << made.error().message;
  const auto& options = dynamic_cast<fleet::MetricsSource&>(*made->plugin).options();
  EXPECT_EQ(options.path, "/m");
  EXPECT_EQ(options.port, 9400);
  EXPECT_EQ(options.interval, std::chrono::seconds(1));
}

TEST_F(DataLayerTest, SourceRefusesWhatCannotBeFetched) {
  const struct {
    std::string_view yaml, error;
  } kCases[] = {
      {"{path: m}",
       "plugin 'p' (metrics-data-source): parameter 'path' must start with '/', not 'm'"},
      {"{scheme: https, caCertPath: /missing/ca.pem}",
       "plugin 'p' (metrics-data-source): '/missing/ca.pem': cannot be read: No such file or "
       "directory"},
      {"{scheme: htps}",
       "f.yaml:1: plugin 'p' (metrics-data-source): parameter 'scheme': must be one of 'http', "
       "'https', not \"htps\" (did you mean 'https'?)"},
      {"{port: 0}",
       "f.yaml:1: plugin 'p' (metrics-data-source): parameter 'port': must be >= 1, not 0"},
      {"{interval: 0s}",
       "f.yaml:1: plugin 'p' (metrics-data-source): parameter 'interval': must be > 0, not \"0s\""},
      {"{clientKeyPath: k}",
       "plugin 'p' (metrics-data-source): parameters 'clientCertPath' and 'clientKeyPath' go "
       "together"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(metrics_data_source(), c.yaml), c.error);
}

TEST_F(DataLayerTest, OtherSourcesDifferInTheirDefaults) {
  const auto dcgm = make(dcgm_data_source(), "{useNodeAddress: true}");
  ASSERT_TRUE(dcgm) << dcgm.error().message;
  EXPECT_EQ(dcgm->parameters,
            R"({"scheme":"http","path":"/metrics","port":9400,"insecureSkipVerify":true,)"
            R"("caCertPath":"","clientCertPath":"","clientKeyPath":"","interval":null,)"
            R"("useNodeAddress":true})");
  EXPECT_EQ(dynamic_cast<fleet::MetricsSource&>(*dcgm->plugin).options().port, 9400);
  const auto clusters = make(multicluster_metrics_data_source(), "{}");
  ASSERT_TRUE(clusters) << clusters.error().message;
  const auto& options = dynamic_cast<fleet::MetricsSource&>(*clusters->plugin).options();
  EXPECT_EQ(options.scheme, "https");
  EXPECT_TRUE(options.tls) << "verifies";
  EXPECT_TRUE(options.placed_by_labels);
}

TEST_F(DataLayerTest, ExtractorsOfAttributesSayWhatTheyRead) {
  const auto attributes = [&](const plugin::Descriptor& descriptor) {
    const auto made = make(descriptor, "{}");
    EXPECT_TRUE(made);
    const auto& extractor = dynamic_cast<fleet::MetricsExtractor&>(*made->plugin);
    EXPECT_FALSE(extractor.reads_load());
    return extractor.options().attributes;
  };
  const auto gpu = attributes(dcgm_extractor());
  ASSERT_EQ(gpu.size(), 1u);
  EXPECT_EQ(gpu[0].key, "GPUUtilization/p");
  EXPECT_EQ(gpu[0].series.family, "DCGM_FI_DEV_GPU_UTIL");
  const auto pool = attributes(multicluster_metrics_extractor());
  ASSERT_EQ(pool.size(), 2u);
  EXPECT_EQ(pool[0].key, "llm-d.ai/multicluster-kv-cache-utilization/");
  EXPECT_EQ(pool[1].series.family, "llm_d_epp_average_queue_size");
}

TEST_F(DataLayerTest, ExtractorKnowsTheBuiltInEngines) {
  const auto made = make(core_metrics_extractor(), "{}");
  ASSERT_TRUE(made) << made.error().message;
  const auto& options = dynamic_cast<fleet::MetricsExtractor&>(*made->plugin).options();
  EXPECT_EQ(options.engine_label, "llm-d.ai/engine-type");
  EXPECT_EQ(options.default_engine, "vllm");
  EXPECT_EQ(options.engines.size(), fleet::builtin_engines().size());
}

TEST_F(DataLayerTest, ExtractorAddsAndReplacesEngines) {
  const auto made = make(core_metrics_extractor(), R"(
defaultEngine: mine
engineConfigs:
- {name: mine, queuedRequestsSpec: 'q{a=b}', cacheInfoSpec: c, cacheBlockSizeLabelName: bs}
- {name: sglang, runningRequestsSpec: r}
)");
  ASSERT_TRUE(made) << made.error().message;
  const auto& engines = dynamic_cast<fleet::MetricsExtractor&>(*made->plugin).options().engines;
  EXPECT_EQ(engines.size(), fleet::builtin_engines().size() + 1);
  const auto engine = [&](std::string_view name) {
    return *std::ranges::find(engines, name, &fleet::EngineMetrics::name);
  };
  EXPECT_EQ(engine("mine").queued, (fleet::SeriesSpec{"q", {{"a", "b"}}}));
  EXPECT_EQ(engine("mine").block_size_label, "bs");
  EXPECT_EQ(engine("sglang").running.family, "r");
  EXPECT_EQ(engine("sglang").queued.family, "");
}

TEST_F(DataLayerTest, ExtractorRefusesEnginesThatCannotBeTold) {
  const auto& type = core_metrics_extractor();
  EXPECT_EQ(error_of(type, "{engineConfigs: [{name: default}]}"),
            "plugin 'p' (core-metrics-extractor): parameter 'engineConfigs': an engine's name must "
            "not be 'default'");
  EXPECT_EQ(error_of(type, "{engineConfigs: [{name: a}, {name: a}]}"),
            "plugin 'p' (core-metrics-extractor): parameter 'engineConfigs': engine 'a' is given "
            "twice");
  EXPECT_EQ(error_of(type, "{defaultEngine: vlm}"),
            "plugin 'p' (core-metrics-extractor): parameter 'defaultEngine': unknown engine 'vlm' "
            "(did you mean 'vllm'?)");
  EXPECT_EQ(
      error_of(type, "{engineConfigs: [{name: a, kvUsageSpecs: x}]}"),
      "f.yaml:1: plugin 'p' (core-metrics-extractor): parameter 'engineConfigs[0].kvUsageSpecs': "
      "unknown (did you mean 'kvUsageSpec'?)");
  EXPECT_NE(error_of(type, "{engineConfigs: [{name: a, kvUsageSpec: 'x{'}]}"), "no error");
}

TEST_F(DataLayerTest, ExtractorRefusesCustomMetricsThatCannotBeRead) {
  const struct {
    std::string_view metrics, error;
  } kCases[] = {
      {"[{metricSpec: m}]", "'attributeKey' is missing"},
      {"[{attributeKey: k}]", "'k': '' is not a metric: the family name is missing"},
      {"[{attributeKey: k, metricSpec: 'm{'}]",
       "'k': 'm{' is not a metric: '}' is missing at the end"},
      {"[{attributeKey: k, metricSpec: m}, {attributeKey: k, metricSpec: n}]",
       "attributeKey 'k' is given twice"},
  };
  for (const auto& c : kCases)
    EXPECT_EQ(error_of(core_metrics_extractor(), "{engineConfigs: [{name: a, customMetrics: " +
                                                     std::string(c.metrics) + "}]}"),
              "plugin 'p' (core-metrics-extractor): engine 'a': parameter 'customMetrics': " +
                  std::string(c.error));
}

TEST_F(DataLayerTest, ExtractorTellsTheReaderAboutCustomMetrics) {
  const auto made = make(core_metrics_extractor(),
                         "{engineConfigs: [{name: vllm, customMetrics: [{attributeKey: gpu, "
                         "metricSpec: 'util{id=0}'}]}]}");
  ASSERT_TRUE(made) << made.error().message;
  const auto& engines = dynamic_cast<fleet::MetricsExtractor&>(*made->plugin).options().engines;
  const auto& custom = std::ranges::find(engines, "vllm", &fleet::EngineMetrics::name)->custom;
  ASSERT_EQ(custom.size(), 1u);
  EXPECT_EQ(custom[0].first, "gpu");
  EXPECT_EQ(custom[0].second, (fleet::SeriesSpec{"util", {{"id", "0"}}}));
}

TEST(CoreMetricsExtractor, DumpsAdaptersAndCustomMetrics) {
  schedule::testing::Harness harness{2};
  const auto& extractor = harness.make<plugin::Plugin>(core_metrics_extractor());
  EXPECT_EQ(extractor.dump_state(), R"({"endpoints":[],"totalEndpoints":0,"maxEndpoints":100})");
  harness.endpoints[1]->metrics.store({.max_active_models = 4});
  harness.endpoints[1]->details.store(std::make_shared<const fleet::EngineDetails>(
      fleet::EngineDetails{.running_adapters = {"a", "b\""},
                           .waiting_adapters = {"c"},
                           .custom = {{"gpu", 0.5}, {"odd", NAN}}}));
  for (size_t i = 0; i < 2; ++i) harness.join(i);
  harness.leave(0);
  EXPECT_EQ(extractor.dump_state(),
            R"({"endpoints":[{"endpoint":"default/e1","runningAdapters":["a","b\""],)"
            R"("waitingAdapters":["c"],"maxAdapters":4,"customMetrics":{"gpu":0.5,"odd":null}}],)"
            R"("totalEndpoints":1,"maxEndpoints":100})");
}

}  // namespace
}  // namespace llmd::plugins
