#include "predict/service_options.h"

#include <gtest/gtest.h>

#include <map>

namespace llmd::predict {
namespace {

ServiceOptions read(const std::map<std::string, std::string>& variables) {
  return read_service_options([&](const char* name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

TEST(ServiceOptions, HaveTheDefaultsOfTheReference) {
  const auto o = read({});
  ASSERT_EQ(o.predictors.size(), 1u);
  EXPECT_EQ(o.predictors[0].name, "localhost:8001");
  EXPECT_EQ(o.trainer.name, "localhost:8000");
  EXPECT_EQ(o.timeout, std::chrono::seconds(10));
  EXPECT_EQ(o.window, std::chrono::milliseconds(1));
  EXPECT_EQ(o.rows_max, 100u);
  EXPECT_EQ(o.calls_max, 36u);
  EXPECT_EQ(o.samples_max, 1000u);
  EXPECT_TRUE(o.warnings.empty());
}

TEST(ServiceOptions, TakeWhatTheEnvironmentSays) {
  const auto o = read({{"PREDICTION_SERVER_URL", "http://10.0.0.1:81, https://p.example/"},
                       {"TRAINING_SERVER_URL", "http://t:82"},
                       {"LATENCY_MAX_BULK_SIZE", "50"},
                       {"LATENCY_MAX_COALESCED_ROWS", "20"},
                       {"LATENCY_COALESCE_WINDOW_MS", "0"},
                       {"LATENCY_MAX_CONCURRENT_DISPATCHES", "2"}});
  ASSERT_EQ(o.predictors.size(), 2u);
  EXPECT_EQ(o.predictors[0].address, "10.0.0.1");
  EXPECT_EQ(o.predictors[1].scheme, "https");
  EXPECT_EQ(o.predictors[1].port, 443);
  EXPECT_EQ(o.trainer.name, "t:82");
  EXPECT_EQ(o.rows_max, 20u);
  EXPECT_EQ(o.window, Nanos(0));
  EXPECT_EQ(o.calls_max, 2u);
}

TEST(ServiceOptions, IgnoreWhatIsNotValidAndSaySo) {
  const auto o = read({{"PREDICTION_SERVER_URL", "http://h:81/path"},
                       {"LATENCY_MAX_BULK_SIZE", "101"},
                       {"LATENCY_HTTP_TIMEOUT_SEC", "soon"}});
  EXPECT_EQ(o.predictors[0].name, "localhost:8001");
  EXPECT_EQ(o.rows_max, 100u);
  ASSERT_EQ(o.warnings.size(), 3u);
  EXPECT_EQ(o.warnings[1],
            "LATENCY_HTTP_TIMEOUT_SEC: 'soon' is not a whole number from 1 to 1000000; the default "
            "is used");
}

}  // namespace
}  // namespace llmd::predict
