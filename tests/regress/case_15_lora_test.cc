#include "idle_fleet.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// kv-cache#243, llm-d-router#926, #1467: adapters took the cache entries of their base model, and
/// servers without adapters failed every scrape.

conformance::Step of_model(std::string op, const std::string& model) {
  auto step = completion(std::move(op), "\"" + std::string(2048, 'a') + "\"");
  step.body.replace(step.body.find(R"("m")"), 3, "\"" + model + "\"");
  return step;
}

conformance::Case adapters() {
  auto fleet = idle_fleet(3);
  fleet.plugins.replace(fleet.plugins.find("- {type: queue-scorer}\n"), 0,
                        "- {type: lora-affinity-scorer}\n");
  const std::string queue = "  - {pluginRef: queue-scorer";
  fleet.plugins.replace(fleet.plugins.find(queue), 0, "  - {pluginRef: lora-affinity-scorer}\n");
  return fleet;
}

TEST(Case15, AnAdapterSharesNothingWithItsBaseModel) {
  conformance::Picker picker(idle_fleet(2));
  picker.run(of_model("train", "base"));
  EXPECT_DOUBLE_EQ(picker.run(of_model("probe", "base")).scores.at("e0"), 4 + 3);
  EXPECT_DOUBLE_EQ(picker.run(of_model("probe", "adapter")).scores.at("e0"), 4);
}

TEST(Case15, APageWithoutAdaptersHasNone) {
  conformance::Picker picker(adapters());  // a page that does not read ends the test
  const auto answer = picker.run(of_model("probe", "adapter"));
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.scores.size(), 3u);
}

TEST(Case15, AnAdapterNobodyHasGoesToAnyServer) {
  auto fleet = adapters();
  fleet.endpoints[0].metrics +=
      R"(vllm:lora_requests_info{max_lora="1",running_lora_adapters="other",waiting_lora_adapters=""} 1
)";
  conformance::Picker picker(fleet);
  const auto answer = picker.run(of_model("probe", "adapter"));
  EXPECT_EQ(answer.scores.size(), 3u);
  EXPECT_DOUBLE_EQ(answer.scores.at("e0"), 4);  // full, and still a candidate
}

}  // namespace
}  // namespace llmd::regress
