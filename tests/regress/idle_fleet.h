#pragma once

#include "picker.h"
#include "score_case.h"

#include <string>

namespace llmd::regress {

/// What an idle engine reports.
inline std::string idle_page(int block_size = 16) {
  return "vllm:num_requests_running{engine=\"0\"} 0\nvllm:num_requests_waiting{engine=\"0\"} 0\n"
         "vllm:kv_cache_usage_perc{engine=\"0\"} 0\n"
         "vllm:cache_config_info{block_size=\"" +
         std::to_string(block_size) + "\",num_gpu_blocks=\"100000\"} 1\n";
}

/// `endpoints` idle engines under the default scorers.
inline conformance::Case idle_fleet(size_t endpoints, int block_size = 16) {
  conformance::Case made;
  made.name = "idle fleet";
  made.plugins =
      "- {type: queue-scorer}\n- {type: kv-cache-utilization-scorer}\n"
      "- {type: prefix-cache-scorer}\n- {type: max-score-picker}\n"
      "schedulingProfiles:\n- name: default\n  plugins:\n"
      "  - {pluginRef: queue-scorer, weight: 2}\n"
      "  - {pluginRef: kv-cache-utilization-scorer, weight: 2}\n"
      "  - {pluginRef: prefix-cache-scorer, weight: 3}\n  - {pluginRef: max-score-picker}\n";
  made.endpoints.resize(endpoints, {.labels = {}, .metrics = idle_page(block_size)});
  return made;
}

/// A completion whose prompt is the JSON value `prompt`. `op` is a step of conformance::Step;
/// anything but a probe goes to `endpoint`.
inline conformance::Step completion(std::string op, const std::string& prompt,
                                    uint32_t endpoint = 0) {
  conformance::Step step;
  step.op = std::move(op);
  if (step.op != "probe") step.subset = std::vector{endpoint};
  step.body = "{\"model\":\"m\",\"prompt\":" + prompt + "}";
  return step;
}

}  // namespace llmd::regress
