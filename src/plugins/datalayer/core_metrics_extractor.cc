#include "base/mutex.h"
#include "base/text.h"
#include "fleet/metrics_source.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

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
                         "Further numbers to read; the debug state shows them."),
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
  for (const auto& custom : engine.custom) {
    const std::string where = "engine '" + engine.name + "': parameter 'customMetrics'";
    if (custom.attribute_key.empty())
      return fail(Code::kBadRequest, where + ": 'attributeKey' is missing");
    if (std::ranges::find(metrics.custom, custom.attribute_key,
                          &std::pair<std::string, SeriesSpec>::first) != metrics.custom.end())
      return fail(Code::kBadRequest,
                  where + ": attributeKey '" + custom.attribute_key + "' is given twice");
    auto parsed = fleet::parse_series_spec(custom.metric_spec);
    if (!parsed)
      return fail(std::move(parsed).error().in(where + ": '" + custom.attribute_key + "'"));
    metrics.custom.emplace_back(custom.attribute_key, std::move(*parsed));
  }
  return metrics;
}

/// The endpoints whose details the debug state shows. Outlives configurations. Threading: any.
class Present final : public fleet::MembershipListener {
 public:
  void on_added(const fleet::EndpointPtr& endpoint) override {
    const MutexLock lock(mutex_);
    by_slot_[endpoint->slot()] = endpoint;
  }
  void on_removed(const fleet::EndpointPtr& endpoint) override {
    const MutexLock lock(mutex_);
    const auto at = by_slot_.find(endpoint->slot());
    if (at != by_slot_.end() && at->second->generation() == endpoint->generation())
      by_slot_.erase(at);
  }

  /// {"endpoints": [{"endpoint", "runningAdapters", "waitingAdapters", "maxAdapters",
  /// "customMetrics"}], "totalEndpoints", "maxEndpoints"}; of each list the first kDumpMax.
  std::string dump() const {
    const MutexLock lock(mutex_);
    std::string out = R"({"endpoints":[)";
    size_t listed = 0;
    for (const auto& [slot, endpoint] : by_slot_) {
      if (listed == kDumpMax) break;
      if (listed++ > 0) out += ',';
      put(out, *endpoint);
    }
    return out + R"(],"totalEndpoints":)" + std::to_string(by_slot_.size()) +
           R"(,"maxEndpoints":)" + std::to_string(kDumpMax) + "}";
  }

 private:
  static constexpr size_t kDumpMax = 100;

  static void put_text(std::string& out, std::string_view text) {
    out += '"';
    append_json_escaped(out, text);
    out += '"';
  }
  static void put_names(std::string& out, const std::vector<std::string>& names) {
    for (size_t i = 0; i < std::min(names.size(), kDumpMax); ++i) {
      if (i > 0) out += ',';
      put_text(out, names[i]);
    }
  }
  static void put(std::string& out, const fleet::Endpoint& endpoint) {
    const auto details = endpoint.details.load();
    out += R"({"endpoint":)";
    put_text(out, endpoint.id());
    out += R"(,"runningAdapters":[)";
    put_names(out, details->running_adapters);
    out += R"(],"waitingAdapters":[)";
    put_names(out, details->waiting_adapters);
    out += R"(],"maxAdapters":)" + std::to_string(endpoint.metrics.load().max_active_models);
    out += R"(,"customMetrics":{)";
    for (size_t i = 0; i < std::min(details->custom.size(), kDumpMax); ++i) {
      const auto& [key, value] = details->custom[i];
      if (i > 0) out += ',';
      put_text(out, key);
      out += std::isfinite(value) ? fmt::format(":{}", value) : ":null";
    }
    out += "}}";
  }

  mutable Mutex mutex_;
  std::map<uint32_t, fleet::EndpointPtr> by_slot_ LLMD_GUARDED_BY(mutex_);
};

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
      LLMD_TRY_ASSIGN(auto metrics, to_metrics(engine));
      const auto same = std::ranges::find(options.engines, engine.name, &EngineMetrics::name);
      if (same == options.engines.end())
        options.engines.push_back(std::move(metrics));
      else
        *same = std::move(metrics);
    }
    LLMD_TRY(check_default(options));
    return std::make_unique<CoreMetricsExtractor>(
        std::move(options), c.state.get<Present>(c.name, [] { return new Present; }));
  }

  CoreMetricsExtractor(Options options, std::shared_ptr<Present> present)
      : options_(std::move(options)), present_(std::move(present)) {}

  const Options& options() const override { return options_; }

  void wire(schedule::Wiring& wiring) override {
    wiring.produces<schedule::WaitingQueueSize>();
    wiring.produces<schedule::RunningRequestsSize>();
    wiring.produces<schedule::KvCacheUsage>();
    wiring.produces<schedule::ActiveModels>();
    wiring.produces<schedule::WaitingModels>();
    wiring.listen(present_);
  }

  std::string dump_state() const override { return present_->dump(); }

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
  const std::shared_ptr<Present> present_;
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
