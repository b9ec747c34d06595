#include "score_case.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace llmd::conformance {
namespace {

using nlohmann::json;

std::string text(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? "" : at->get<std::string>();
}

Step read_step(const json& from) {
  Step step{.op = text(from, "op"),
            .id = text(from, "id"),
            .endpoint = from.value("ep", 0u),
            .path = text(from, "path"),
            .body = text(from, "body"),
            .ms = from.value("ms", 0)};
  if (step.path.empty()) step.path = "/v1/completions";
  return step;
}

CaseEndpoint read_endpoint(const json& from) {
  CaseEndpoint endpoint{.labels = {}, .metrics = text(from, "metrics")};
  if (const auto labels = from.find("labels"); labels != from.end() && labels->is_object())
    for (const auto& [key, value] : labels->items()) endpoint.labels.emplace_back(key, value);
  return endpoint;
}

}  // namespace

std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  for (const auto& from : json::parse(file)) {
    Case& made = cases.emplace_back();
    made.name = text(from, "name");
    made.plugins = text(from, "plugins");
    made.data_layer = text(from, "dataLayer");
    for (const auto& endpoint : from.at("endpoints"))
      made.endpoints.push_back(read_endpoint(endpoint));
    for (const auto& step : from.at("steps")) made.steps.push_back(read_step(step));
  }
  return cases;
}

std::map<std::pair<std::string, size_t>, Observed> read_observed(const std::string& path) {
  std::ifstream file(path);
  std::map<std::pair<std::string, size_t>, Observed> all;
  for (std::string line; std::getline(file, line);) {
    const json from = json::parse(line);
    all[{from.at("case"), from.at("step")}] = {
        .picked = from.at("picked"),
        .scores = from.at("scores").get<std::map<std::string, double>>()};
  }
  return all;
}

}  // namespace llmd::conformance
