#include "bench/report.h"

#include "bench/stats.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iterator>

namespace llmd::bench {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const PolicyFigures& f) {
  return Json{{"return_rate", f.return_rate},
              {"token_hit_rate", f.token_hit_rate},
              {"ttft_p50_ms", f.ttft_p50_ms},
              {"ttft_p95_ms", f.ttft_p95_ms},
              {"prefill_tokens_mean", f.prefill_tokens_mean},
              {"requests", f.requests}};
}

std::string returned(const PolicyFigures& f) {
  return fmt::format("{}/{} ({:.1f} %)", f.returned, f.requests, f.return_rate * 100);
}
std::string hit_rate(const PolicyFigures& f) {
  return fmt::format("{:.2f} %", f.token_hit_rate * 100);
}
std::string ttft(const PolicyFigures& f) {
  return fmt::format("{:.1f} / {:.1f} ms", f.ttft_p50_ms, f.ttft_p95_ms);
}
std::string prefill(const PolicyFigures& f) {
  return fmt::format("{:.1f}", f.prefill_tokens_mean);
}

}  // namespace

const PolicyFigures kPublishedRandom{.requests = 30,
                                     .returned = 17,
                                     .return_rate = 17.0 / 30,
                                     .token_hit_rate = 0.5656,
                                     .ttft_p50_ms = 155.1,
                                     .ttft_p95_ms = 2018.0,
                                     .prefill_tokens_mean = 2261.5};
const PolicyFigures kPublishedPrefix{.requests = 30,
                                     .returned = 30,
                                     .return_rate = 1,
                                     .token_hit_rate = 0.9960,
                                     .ttft_p50_ms = 127.3,
                                     .ttft_p95_ms = 159.2,
                                     .prefill_tokens_mean = 21.0};

PolicyFigures summarize(std::span<const SecondRequest> requests) {
  PolicyFigures f;
  std::vector<double> ttfts;
  EngineCounters sum;
  for (const auto& r : requests) {
    ++f.requests;
    f.returned += r.returned;
    ttfts.push_back(r.ttft_ms);
    sum.cache_hits += r.engine.cache_hits;
    sum.cache_queries += r.engine.cache_queries;
    sum.prefill_tokens += r.engine.prefill_tokens;
  }
  if (f.requests == 0) return f;
  const auto n = static_cast<double>(f.requests);
  f.return_rate = static_cast<double>(f.returned) / n;
  f.token_hit_rate = sum.cache_queries > 0 ? sum.cache_hits / sum.cache_queries : 0;
  f.prefill_tokens_mean = sum.prefill_tokens / n;
  f.ttft_p50_ms = percentile(ttfts, 50);
  f.ttft_p95_ms = percentile(ttfts, 95);
  return f;
}

std::string report_json(const Experiment& experiment) {
  const Json report{{"random", to_json(summarize(experiment.random))},
                    {"prefix", to_json(summarize(experiment.prefix))},
                    {"time_scale", experiment.time_scale}};
  return report.dump(2) + "\n";
}

std::string report_table(const Experiment& experiment) {
  const PolicyFigures random = summarize(experiment.random);
  const PolicyFigures prefix = summarize(experiment.prefix);
  std::string out;
  const auto row = [&out](std::string_view name, std::string_view a, std::string_view b,
                          std::string_view c, std::string_view d) {
    fmt::format_to(std::back_inserter(out), "  {:<27} {:>18} {:>18}   {:>18} {:>18}\n", name, a, b,
                   c, d);
  };
  const auto figures = [&](std::string_view name, std::string (*show)(const PolicyFigures&)) {
    row(name, show(random), show(prefix), show(kPublishedRandom), show(kPublishedPrefix));
  };
  fmt::format_to(std::back_inserter(out), "  {:<27} {:^37}   {:^37}\n", "", "measured here",
                 "published");
  row("Second requests", "random", "prefix-aware", "random", "prefix-aware");
  figures("back on the first replica", returned);
  figures("token hit rate", hit_rate);
  figures("TTFT P50 / P95", ttft);
  figures("prefill tokens, mean", prefill);
  return out;
}

}  // namespace llmd::bench
