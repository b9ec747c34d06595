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

/// A number of an endpoint that other plugins read by name (EngineDetails::attributes).
struct AttributeSeries {
  std::string key;  // full attribute key: "name/producer"
  SeriesSpec series;
  bool largest = false;   // of several samples that match; else the newest, or the first
  std::string own_label;  // a sample with this label counts only when that is the endpoint's name
  double factor = 1;      // from the page's unit to the attribute's
};

/// Fetches a page of each endpoint: `metrics-data-source` and its kin.
class MetricsSource : public virtual plugin::Plugin {
 public:
  struct Options {
    std::optional<std::string> scheme;  // http or https; none: the endpoint's
    std::shared_ptr<tls::Context> tls;  // for https; null: the process's, or no verification
    std::string path = "/metrics";
    std::optional<uint16_t> port;   // instead of the endpoint's own
    std::optional<Nanos> interval;  // instead of --refresh-metrics-interval
    /// An endpoint's labels metricsAddress (a literal) and metricsPort say where its page is.
    bool placed_by_labels = false;
  };
  virtual const Options& options() const = 0;
};

/// Reads the page: `core-metrics-extractor` the load of EndpointMetrics, others attributes.
class MetricsExtractor : public virtual plugin::Plugin {
 public:
  struct Options {
    std::string engine_label = "llm-d.ai/engine-type";
    std::string default_engine = "vllm";
    std::vector<EngineMetrics> engines;       // built-in ones included; names are unique
    std::vector<AttributeSeries> attributes;  // not empty: these are read, and nothing else
  };
  virtual const Options& options() const = 0;
  bool reads_load() const { return options().attributes.empty(); }
};

/// A page and its reader.
struct Feed {
  const MetricsSource* source = nullptr;
  const MetricsExtractor* extractor = nullptr;
};

}  // namespace llmd::fleet
