#include "base/log.h"
#include "base/text.h"
#include "fleet/metrics_source.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using fleet::EngineMetrics;
using fleet::SeriesSpec;

struct Custom {
  std::string attribute_key;
  std::string metric_spec;
};

struct Engine {
  std::string name;
  std::string queued, running, kv_usage, lora, cache_info;
  std::string block_size_label, num_blocks_label;
  std::string block_size, num_blocks;
  std::vector<Custom> custom;
};

struct Params {
  std::string engine_label_key = "llm-d.ai/engine-type";
  std::string default_engine = "vllm";
  std::vector<Engine> engines;
};

const plugin::Params<Custom>& custom_table() {
  static const plugin::Params<Custom> params = {
      plugin::field("attributeKey", &Custom::attribute_key, "", "Name of the attribute."),
      plugin::field("metricSpec", &Custom::metric_spec, "", "Series that it is read from."),
  };
  return params;
}

const plugin::Params<Engine>& engine_table() {
  static const plugin::Params<Engine> params = {
      plugin::field("name", &Engine::name, "", "Value of the endpoint's engine label."),
      plugin::field("queuedRequestsSpec", &Engine::queued, "", "Series of waiting requests."),
      plugin::field("runningRequestsSpec", &Engine::running, "", "Series of running requests."),
      plugin::field("kvUsageSpec", &Engine::kv_usage, "", "Series of the KV cache in use, 0 to 1."),
      plugin::field("loraSpec", &Engine::lora, "", "Series whose labels list LoRA adapters."),
      plugin::field("cacheInfoSpec", &Engine::cache_info, "",
                    "Series whose labels hold the cache's block size and number of blocks."),
      plugin::field("cacheBlockSizeLabelName", &Engine::block_size_label, "",
                    "Label of cacheInfoSpec with the tokens of a block."),
      plugin::field("cacheNumBlocksLabelName", &Engine::num_blocks_label, "",
                    "Label of cacheInfoSpec with the number of blocks."),
      plugin::field("cacheBlockSizeSpec", &Engine::block_size, "",
                    "Series with the tokens of a block."),
      plugin::field("cacheNumBlocksSpec", &Engine::num_blocks, "",
                    "Series with the number of blocks."),
      plugin::list_field("customMetrics", &Engine::custom, custom_table(),
                         "Further numbers, as attributes of the endpoint."),
  };
  return params;
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("engineLabelKey", &Params::engine_label_key, "",
                    "Endpoint label that names the engine."),
      plugin::field("defaultEngine", &Params::default_engine, "",
                    "Engine of endpoints without that label."),
      plugin::list_field("engineConfigs", &Params::engines, engine_table(),
                         "Engines besides the built-in ones vllm, sglang, trtllm-serve, "
                         "triton-tensorrt-llm and triton; one of the same name replaces those. A "
                         "series is written as family or family{label=value,other=\"value\"}."),
  };
  return params;
}

Result<EngineMetrics> to_metrics(const Engine& engine) {
  EngineMetrics metrics{.name = engine.name,
                        .block_size_label = engine.block_size_label,
                        .num_blocks_label = engine.num_blocks_label};
  const struct {
    std::string_view parameter;
    const std::string& text;
    SeriesSpec& spec;
  } specs[] = {
      {"queuedRequestsSpec", engine.queued, metrics.queued},
      {"runningRequestsSpec", engine.running, metrics.running},
      {"kvUsageSpec", engine.kv_usage, metrics.kv_usage},
      {"loraSpec", engine.lora, metrics.lora},
      {"cacheInfoSpec", engine.cache_info, metrics.cache_info},
      {"cacheBlockSizeSpec", engine.block_size, metrics.block_size},
      {"cacheNumBlocksSpec", engine.num_blocks, metrics.num_blocks},
  };
  for (const auto& [parameter, text, spec] : specs) {
    if (text.empty()) continue;
    auto parsed = fleet::parse_series_spec(text);
    if (!parsed)
      return fail(std::move(parsed).error().in("engine '" + engine.name + "': parameter '" +
                                               std::string(parameter) + "'"));
    spec = std::move(*parsed);
  }
  return metrics;
}

class CoreMetricsExtractor final : public fleet::MetricsExtractor, public schedule::Wired {
 public:
  static Result<std::unique_ptr<CoreMetricsExtractor>> create(Params p, const plugin::Context& c) {
    Options options{.engine_label = std::move(p.engine_label_key),
                    .default_engine = std::move(p.default_engine),
                    .engines = fleet::builtin_engines()};
    std::vector<std::string_view> configured;
    for (const auto& engine : p.engines) {
      if (engine.name.empty() || engine.name == "default")
        return fail(Code::kBadRequest, "parameter 'engineConfigs': an engine's name must not be '" +
                                           engine.name + "'");
      if (std::ranges::find(configured, engine.name) != configured.end())
        return fail(Code::kBadRequest,
                    "parameter 'engineConfigs': engine '" + engine.name + "' is given twice");
      configured.push_back(engine.name);
      if (!engine.custom.empty())
        log::warn("customMetrics are not read: no plugin of this build uses them",
                  {{"plugin", c.name}, {"engine", engine.name}});
      LLMD_TRY_ASSIGN(auto metrics, to_metrics(engine));
      const auto same = std::ranges::find(options.engines, engine.name, &EngineMetrics::name);
      if (same == options.engines.end())
        options.engines.push_back(std::move(metrics));
      else
        *same = std::move(metrics);
    }
    LLMD_TRY(check_default(options));
    return std::make_unique<CoreMetricsExtractor>(std::move(options));
  }

  explicit CoreMetricsExtractor(Options options) : options_(std::move(options)) {}

  const Options& options() const override { return options_; }

  void wire(schedule::Wiring& wiring) override {
    wiring.produces<schedule::WaitingQueueSize>();
    wiring.produces<schedule::RunningRequestsSize>();
    wiring.produces<schedule::KvCacheUsage>();
  }

 private:
  static Status check_default(const Options& options) {
    std::vector<std::string_view> names;
    for (const auto& engine : options.engines) names.push_back(engine.name);
    if (std::ranges::find(names, options.default_engine) != names.end()) return {};
    return fail(Code::kBadRequest, "parameter 'defaultEngine': unknown engine '" +
                                       options.default_engine + "'" +
                                       suggestion(options.default_engine, names));
  }

  const Options options_;
};

}  // namespace

const plugin::Descriptor& core_metrics_extractor() {
  static const auto descriptor = plugin::describe<CoreMetricsExtractor>(
      {.type = "core-metrics-extractor",
       .kind = "extractor",
       .summary = "Reads queue, running requests, KV cache and LoRA adapters from the page, by the "
                  "names of the endpoint's engine."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
