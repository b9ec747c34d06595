#include "trace/settings.h"

#include <gtest/gtest.h>

#include <map>

namespace llmd::trace {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<Settings>> read(const Variables& variables) {
  return read_settings(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      "llm-d-epp", "1.0");
}

Settings settings(const Variables& variables) {
  auto result = read(variables);
  EXPECT_TRUE(result) << result.error().message;
  EXPECT_TRUE(*result) << "off";
  return result && *result ? **result : Settings();
}

std::string error(const Variables& variables) {
  auto result = read(variables);
  return result ? "none" : result.error().message;
}

TEST(TraceSettings, AreOffUnlessAsked) {
  EXPECT_FALSE(*read({}));
  EXPECT_FALSE(*read({{"OTEL_TRACES_SAMPLER_ARG", "1"}}));
  EXPECT_FALSE(
      *read({{"OTEL_TRACES_EXPORTER", "none"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}}));
  EXPECT_FALSE(*read({{"OTEL_SDK_DISABLED", "true"}, {"OTEL_TRACES_EXPORTER", "otlp"}}));
}

TEST(TraceSettings, DefaultToTheLocalCollectorAndATenthOfRequests) {
  const auto s = settings({{"OTEL_TRACES_EXPORTER", "otlp"}});
  EXPECT_EQ(s.host, "localhost");
  EXPECT_EQ(s.port, 4318);
  EXPECT_EQ(s.path, "/v1/traces");
  EXPECT_EQ(s.ratio, 0.1);
  EXPECT_EQ(s.attributes, (TextPairs{{"service.name", "llm-d-epp"}, {"service.version", "1.0"}}));
  EXPECT_TRUE(s.warnings.empty());
}

TEST(TraceSettings, ReadTheEndpoint) {
  const auto base = settings({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:9/base/"}});
  EXPECT_EQ(base.host, "collector");
  EXPECT_EQ(base.port, 9);
  EXPECT_EQ(base.path, "/base/v1/traces");
  const auto whole = settings({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://unused"},
                               {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[::1]:7/in"}});
  EXPECT_EQ(whole.host, "::1");
  EXPECT_EQ(whole.port, 7);
  EXPECT_EQ(whole.path, "/in");
}

TEST(TraceSettings, NameTheVariableThatIsWrong) {
  EXPECT_EQ(error({{"OTEL_TRACES_EXPORTER", "zipkin"}}),
            "OTEL_TRACES_EXPORTER: 'zipkin' is not available; use otlp or none");
  EXPECT_EQ(
      error({{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"}}),
      "OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' is not a URL like http://collector:4318");
  EXPECT_EQ(error({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:99999"}}),
            "OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:99999' has no valid port");
  EXPECT_EQ(error({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://:4318"}}),
            "OTEL_EXPORTER_OTLP_ENDPOINT: 'http://:4318' names no host");
  EXPECT_EQ(error({{"OTEL_TRACES_EXPORTER", "otlp"}, {"OTEL_BSP_MAX_QUEUE_SIZE", "-1"}}),
            "OTEL_BSP_MAX_QUEUE_SIZE: '-1' is not a positive whole number");
  EXPECT_EQ(error({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c"},
                   {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k.pem"}}),
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY go together");
}

TEST(TraceSettings, AskForTlsByTheScheme) {
  EXPECT_FALSE(settings({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"}}).tls);
  const auto s = settings({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:4443/base"},
                           {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"},
                           {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/traces-ca.pem"}});
  ASSERT_TRUE(s.tls);
  EXPECT_EQ(s.tls->ca_file, "/traces-ca.pem");
  EXPECT_TRUE(s.tls->verify);
  EXPECT_EQ(s.host, "c");
  EXPECT_EQ(s.port, 4443);
  EXPECT_EQ(s.path, "/base/v1/traces");
}

TEST(TraceSettings, NeverRepeatSecrets) {
  EXPECT_EQ(error({{"OTEL_TRACES_EXPORTER", "otlp"},
                   {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer secret%0d%0ax"}}),
            "OTEL_EXPORTER_OTLP_HEADERS: must be like name=value,name=value");
  EXPECT_EQ(error({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@c:4318"}}),
            "OTEL_EXPORTER_OTLP_ENDPOINT: must not hold credentials");
}

TEST(TraceSettings, ReadHeadersAndResource) {
  const auto s = settings({{"OTEL_TRACES_EXPORTER", "otlp"},
                           {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, a = b"},
                           {"OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,zone=a%2Cb"}});
  EXPECT_EQ(s.headers, (TextPairs{{"authorization", "Bearer x"}, {"a", "b"}}));
  EXPECT_EQ(s.attributes,
            (TextPairs{{"service.name", "mine"}, {"zone", "a,b"}, {"service.version", "1.0"}}));
  const auto named = settings({{"OTEL_TRACES_EXPORTER", "otlp"},
                               {"OTEL_SERVICE_NAME", "llm-d-router/epp"},
                               {"OTEL_RESOURCE_ATTRIBUTES", "service.name=mine"}});
  EXPECT_EQ(named.attributes[0].second, "llm-d-router/epp");
}

TEST(TraceSettings, FallBackWithAWarning) {
  const auto s = settings({{"OTEL_TRACES_EXPORTER", "otlp"},
                           {"OTEL_RESOURCE_ATTRIBUTES", "nonsense"},
                           {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
                           {"OTEL_TRACES_SAMPLER_ARG", "lots"}});
  EXPECT_EQ(s.ratio, 0.1);
  EXPECT_EQ(s.warnings.size(), 3u);
  const auto other = settings({{"OTEL_TRACES_EXPORTER", "otlp"},
                               {"OTEL_TRACES_SAMPLER", "always_on"},
                               {"OTEL_TRACES_SAMPLER_ARG", "1"}});
  EXPECT_EQ(other.ratio, 0.1);
  EXPECT_EQ(other.warnings.size(), 1u);
}

TEST(TraceSettings, BoundWhatIsQueued) {
  const auto s = settings({{"OTEL_TRACES_EXPORTER", "otlp"},
                           {"OTEL_BSP_SCHEDULE_DELAY", "250"},
                           {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "900"},
                           {"OTEL_BSP_MAX_QUEUE_SIZE", "100"}});
  EXPECT_EQ(s.interval, std::chrono::milliseconds(250));
  EXPECT_EQ(s.queue_max, 100u);
  EXPECT_EQ(s.batch_max, 100u);
}

}  // namespace
}  // namespace llmd::trace
