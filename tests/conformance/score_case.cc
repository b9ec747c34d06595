#include "score_case.h"

#include "base/check.h"

#include <nlohmann/json.hpp>

#include <array>
#include <sstream>
#include <string_view>
#include <zlib.h>

namespace llmd::conformance {
namespace {

using nlohmann::json;

/// Reads files that are compressed, and others as they are.
std::string read_file(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  CHECK(file != nullptr);
  std::string out;
  std::array<char, 65536> piece;
  for (int n; (n = gzread(file, piece.data(), piece.size())) > 0;)
    out.append(piece.data(), static_cast<size_t>(n));
  gzclose(file);
  return out;
}

constexpr std::string_view kWords[] = {
    "alpha", "beta",    "gamma", "delta", "epsilon", "zeta",    "eta",   "theta", "iota",
    "kappa", "lambda",  "mu",    "nu",    "xi",      "omicron", "pi",    "rho",   "sigma",
    "tau",   "upsilon", "phi",   "chi",   "psi",     "omega",   "north", "south", "east",
    "west",  "red",     "green", "blue",  "fast",    "slow",    "long",  "short"};

/// What texts.py draws from the same seed.
std::string text_of(uint64_t seed, size_t length) {
  std::string out;
  while (out.size() < length) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    out += kWords[(seed >> 33) % std::size(kWords)];
    out += ' ';
  }
  out.resize(length);
  return out;
}

/// Writes out `@{SEED:LENGTH}` and `@[SEED:LENGTH]`.
std::string expand(std::string_view body) {
  std::string out;
  for (size_t at = 0; at < body.size(); ++at) {
    const char kind = at + 1 < body.size() && body[at] == '@' ? body[at + 1] : '\0';
    const size_t end = kind == '{'   ? body.find('}', at)
                       : kind == '[' ? body.find(']', at)
                                     : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += body[at];
      continue;
    }
    const std::string mark(body.substr(at + 2, end - at - 2));
    const auto text = text_of(std::stoull(mark), std::stoull(mark.substr(mark.find(':') + 1)));
    if (kind == '{') {
      out += text;
    } else {
      for (size_t i = 0; i < text.size(); ++i)
        out += (i ? "," : "") + std::to_string(static_cast<int>(text[i]));
    }
    at = end;
  }
  return out;
}

std::string text(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? "" : at->get<std::string>();
}

std::string bytes_of(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

Step read_step(const json& from) {
  Step step;
  step.op = text(from, "op");
  step.id = text(from, "id");
  step.body = expand(text(from, "body"));
  step.ms = from.value("ms", 0);
  step.topic = text(from, "topic");
  step.payload = bytes_of(text(from, "payload"));
  if (auto path = text(from, "path"); !path.empty()) step.path = std::move(path);
  if (from.contains("headers") && !from["headers"].is_null())
    step.headers = from["headers"].get<decltype(step.headers)>();
  if (from.contains("subset"))
    step.subset = from["subset"].get<std::vector<uint32_t>>();
  else if (step.op == "train" || step.op == "open")
    step.subset = std::vector{from.value("ep", 0u)};
  if (from.contains("requests"))
    for (const auto& request : from["requests"]) step.requests.push_back(read_step(request));
  return step;
}

CaseEndpoint read_endpoint(const json& from) {
  CaseEndpoint endpoint{.labels = {}, .metrics = text(from, "metrics")};
  if (const auto labels = from.find("labels"); labels != from.end() && labels->is_object())
    for (const auto& [key, value] : labels->items()) endpoint.labels.emplace_back(key, value);
  return endpoint;
}

Answer read_answer(const json& from) {
  Answer answer;
  answer.status = from.value("status", 0);
  answer.error = text(from, "body");
  answer.reason = text(from, "reason");
  answer.picked = text(from, "picked");
  if (from.contains("scores")) answer.scores = from["scores"].get<std::map<std::string, double>>();
  for (const auto& [key, value] : from.items())
    if (key.starts_with("x-") || key.starts_with("answer ")) answer.headers[key] = value;
  return answer;
}

}  // namespace

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  for (const auto& from : json::parse(read_file(path))) {
    Case& made = cases.emplace_back();
    made.name = text(from, "name");
    made.wired = from.value("wired", false);
    made.plugins = text(from, "plugins");
    made.data_layer = text(from, "dataLayer");
    for (const auto& endpoint : from.at("endpoints"))
      made.endpoints.push_back(read_endpoint(endpoint));
    for (const auto& step : from.at("steps")) made.steps.push_back(read_step(step));
  }
  return cases;
}

std::map<ProbeKey, Answer> read_observed(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::map<ProbeKey, Answer> all;
  for (std::string line; std::getline(lines, line);) {
    const json from = json::parse(line);
    all[{from.at("case"), from.at("step"), from.value("i", 0)}] = read_answer(from);
  }
  return all;
}

}  // namespace llmd::conformance
