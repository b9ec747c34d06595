#include "predict/service_options.h"

#include "base/text.h"
#include "fleet/static_discovery.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmd::predict {
namespace {

constexpr std::string_view kDefaultPredictor = "http://localhost:8001";
constexpr std::string_view kDefaultTrainer = "http://localhost:8000";
constexpr int64_t kBulkMost = 100;  // that servers take
constexpr int64_t kMost = 1'000'000;

class Reader {
 public:
  Reader(const Environment& environment, std::vector<std::string>& warnings)
      : environment_(environment), warnings_(warnings) {}

  /// The servers of a comma list; `otherwise` when the variable has none.
  std::vector<fleet::EndpointSpec> servers(const char* name, std::string_view otherwise) {
    std::vector<fleet::EndpointSpec> servers;
    const std::string text = environment_(name).value_or("");
    for (std::string_view rest = text; !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const auto url = trim(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (url.empty()) continue;
      auto server = fleet::parse_endpoint_flag(url);
      if (server && server->labels.empty())
        servers.push_back(std::move(*server));
      else
        warn(name, url,
             server ? "is not a URL like http://predictor:8001"
                    : std::string_view(server.error().message));
    }
    if (servers.empty()) servers.push_back(*fleet::parse_endpoint_flag(otherwise));
    return servers;
  }

  /// A whole number in [lowest, highest].
  int64_t number(const char* name, int64_t otherwise, int64_t lowest, int64_t highest = kMost) {
    const std::string text = environment_(name).value_or("");
    if (text.empty()) return otherwise;
    const auto value = parse_int(text);
    if (value && *value >= lowest && *value <= highest) return *value;
    warn(name, text, fmt::format("is not a whole number from {} to {}", lowest, highest));
    return otherwise;
  }

 private:
  void warn(const char* name, std::string_view value, std::string_view why) {
    warnings_.push_back(fmt::format("{}: '{}' {}; the default is used", name, value, why));
  }

  const Environment& environment_;
  std::vector<std::string>& warnings_;
};

}  // namespace

ServiceOptions read_service_options(const Environment& environment) {
  ServiceOptions o;
  Reader reader(environment, o.warnings);
  o.predictors = reader.servers("PREDICTION_SERVER_URL", kDefaultPredictor);
  o.trainer = reader.servers("TRAINING_SERVER_URL", kDefaultTrainer).front();
  const auto count = [&](const char* name, size_t otherwise) {
    return static_cast<size_t>(reader.number(name, static_cast<int64_t>(otherwise), 1));
  };
  o.samples_max = count("LATENCY_MAX_SAMPLE_SIZE", o.samples_max);
  o.calls_max = count("LATENCY_MAX_CONCURRENT_DISPATCHES", o.calls_max);
  o.flush_interval = std::chrono::seconds(reader.number("LATENCY_FLUSH_INTERVAL_SEC", 1, 1));
  o.timeout = std::chrono::seconds(reader.number("LATENCY_HTTP_TIMEOUT_SEC", 10, 1));
  o.window = std::chrono::milliseconds(reader.number("LATENCY_COALESCE_WINDOW_MS", 1, 0));
  const int64_t bulk = reader.number("LATENCY_MAX_BULK_SIZE", kBulkMost, 1, kBulkMost);
  const int64_t together = reader.number("LATENCY_MAX_COALESCED_ROWS", 0, 0);
  o.rows_max = static_cast<size_t>(together > 0 ? std::min(bulk, together) : bulk);
  return o;
}

}  // namespace llmd::predict
