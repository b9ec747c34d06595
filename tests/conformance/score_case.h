#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The recorded cases of tests/data/conformance: a fleet, a configuration, a script, and per probe
/// what the reference answered. Files may be compressed with gzip.
namespace llmd::conformance {

struct CaseEndpoint {
  std::vector<std::pair<std::string, std::string>> labels;
  std::string metrics;  // its page
};

struct Step {
  std::string op;  // train, open, close, abort, probe, sleep, together, kv
  std::string id;  // open, close, abort: which request
  std::string path = "/v1/completions";
  std::string body;  // with its texts written out
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<std::vector<uint32_t>> subset;  // endpoints that the request may go to
  int ms = 0;
  std::vector<Step> requests;  // together
  std::string topic;           // kv: a message of an engine about its cache …
  std::string payload;         // … in MessagePack
  // What the server answers.
  int reply_status = 200;
  std::vector<std::string> reply = {
      R"({"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}})"};  // in pieces
};

struct Case {
  std::string name;
  bool wired = false;      // needs sockets, which there are none of in process
  std::string plugins;     // YAML: plugins and schedulingProfiles
  std::string data_layer;  // YAML below dataLayer:, indented by two
  std::vector<CaseEndpoint> endpoints;
  std::vector<Step> steps;
};

/// What a request was told. Endpoints are written by their names.
struct Answer {
  int status = 0;                        // of a refusal; 0: none
  std::string error;                     // its text
  std::string reason;                    // its drop reason
  std::string picked;                    // the preferred first, separated by commas
  std::map<std::string, double> scores;  // of the primary profile
  std::map<std::string, std::string>
      headers;           // set for the server; those of the answer are called "answer NAME"
  std::string sent;      // the body that the server got
  std::string received;  // the body that the client got
};

std::vector<Case> read_cases(const std::string& path);

/// A probe: case, step, and which of the requests of a step.
using ProbeKey = std::tuple<std::string, size_t, size_t>;
std::map<ProbeKey, Answer> read_observed(const std::string& path);

}  // namespace llmd::conformance
