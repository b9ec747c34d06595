#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The recorded cases of tests/data/conformance: a fleet, a configuration, a script, and per probe
/// what the reference answered.
namespace llmd::conformance {

struct CaseEndpoint {
  std::vector<std::pair<std::string, std::string>> labels;
  std::string metrics;  // its page
};

struct Step {
  std::string op;  // train, open, close, probe, sleep
  std::string id;  // open, close: which request
  uint32_t endpoint = 0;
  std::string path;
  std::string body;
  int ms = 0;
};

struct Case {
  std::string name;
  std::string plugins;     // YAML: plugins and schedulingProfiles
  std::string data_layer;  // YAML below dataLayer:, indented by two
  std::vector<CaseEndpoint> endpoints;
  std::vector<Step> steps;
};

struct Observed {
  std::string picked;
  std::map<std::string, double> scores;  // by endpoint name
};

std::vector<Case> read_cases(const std::string& path);
/// By case name and step.
std::map<std::pair<std::string, size_t>, Observed> read_observed(const std::string& path);

}  // namespace llmd::conformance
