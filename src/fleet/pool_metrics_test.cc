#include "fleet/pool_metrics.h"

#include <gtest/gtest.h>

namespace llmd::fleet {
namespace {

TEST(MeanDeviation, MatchesTheVectors) {
  const auto check = [](std::vector<double> values, double mean, double deviation) {
    const auto got = mean_deviation(values);
    EXPECT_DOUBLE_EQ(got.mean, mean);
    EXPECT_DOUBLE_EQ(got.deviation, deviation);
  };
  check({.1, .256, .9}, .42, .42);
  check({3, 7}, 5, 2.83);
  check({5}, 5, 0);
  check({0, 1, 2, 10}, 3.25, 4.57);
}

TEST(PoolMetrics, AveragesFreshEndpointsOnly) {
  Fleet fleet;
  fleet.set({{.name = "a", .address = "10.0.0.1", .port = 80},
             {.name = "b", .address = "10.0.0.2", .port = 80}});
  metric::Registry registry(1);
  PoolMetrics pool(fleet, registry, "p", std::chrono::seconds(2));
  const TimePoint now{std::chrono::seconds(100)};
  const auto snapshot = fleet.snapshot();
  snapshot->endpoints[0]->metrics.store({.waiting_queue_size = 3, .updated = now});
  snapshot->endpoints[1]->metrics.store(
      {.waiting_queue_size = 50, .updated = now - std::chrono::seconds(3)});
  pool.refresh(now);
  std::string page = registry.render();
  EXPECT_NE(page.find("llm_d_epp_average_queue_size{name=\"p\"} 3\n"), std::string::npos) << page;
  EXPECT_NE(page.find("inference_pool_ready_pods{name=\"p\"} 1\n"), std::string::npos);
  EXPECT_NE(page.find("inference_pool_per_pod_queue_size{model_server_pod=\"b\",name=\"p\"} 50\n"),
            std::string::npos);

  pool.refresh(now + std::chrono::seconds(10));
  page = registry.render();
  EXPECT_NE(page.find("llm_d_epp_ready_endpoints{name=\"p\"} 0\n"), std::string::npos);
  EXPECT_NE(page.find("llm_d_epp_average_queue_size{name=\"p\"} 3\n"), std::string::npos)
      << "averages freeze";

  fleet.set({{.name = "a", .address = "10.0.0.1", .port = 80}});
  EXPECT_EQ(registry.render().find("model_server_endpoint=\"b\""), std::string::npos);
}

}  // namespace
}  // namespace llmd::fleet
