#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "plugin/plugin.h"

#include "tls/context.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What is scraped from model servers, and how pages of different engines are read (spec 08
/// §5.1, 5.2).
namespace llmd::fleet {

/// One series of a metrics page: `family` or `family{label=value,other="value"}`.
struct SeriesSpec {
  std::string family;  // empty: this engine does not report the number
  std::vector<std::pair<std::string, std::string>> labels;

  bool operator==(const SeriesSpec&) const = default;
};

/// Errors name the text and what is wrong with it.
Result<SeriesSpec> parse_series_spec(std::string_view text);

/// Where an engine's page holds the numbers of EndpointMetrics.
struct EngineMetrics {
  std::string name;  // value of the endpoint's engine label
  SeriesSpec queued;
  SeriesSpec running;
  SeriesSpec kv_usage;
  SeriesSpec lora;
  SeriesSpec cache_info;  // block size and count are two of its labels …
  std::string block_size_label;
  std::string num_blocks_label;
  SeriesSpec block_size;  // … or series of their own
  SeriesSpec num_blocks;
  std::vector<std::pair<std::string, SeriesSpec>> custom;  // by attribute key, of EngineDetails
};

/// vllm, sglang, trtllm-serve, triton-tensorrt-llm, triton.
const std::vector<EngineMetrics>& builtin_engines();

/// Fetches the page: the plugin `metrics-data-source`.
class MetricsSource : public virtual plugin::Plugin {
 public:
  struct Options {
    std::optional<std::string> scheme;  // http or https; none: the endpoint's
    std::shared_ptr<tls::Context> tls;  // for https; null: the process's, or no verification
    std::string path = "/metrics";
    std::optional<uint16_t> port;   // instead of the endpoint's own
    std::optional<Nanos> interval;  // instead of --refresh-metrics-interval
  };
  virtual const Options& options() const = 0;
};

/// Reads the page: the plugin `core-metrics-extractor`.
class MetricsExtractor : public virtual plugin::Plugin {
 public:
  struct Options {
    std::string engine_label = "llm-d.ai/engine-type";
    std::string default_engine = "vllm";
    std::vector<EngineMetrics> engines;  // built-in ones included; names are unique
  };
  virtual const Options& options() const = 0;
};

}  // namespace llmd::fleet
