#include "bench/flow_report.h"

#include "bench/stats.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace llmd::bench {
namespace {

using Json = nlohmann::ordered_json;

TenantFigures figures_of(const TenantRun& tenant, const FlowExperiment& experiment) {
  const OpenLoopResult& r = tenant.result;
  const double scale = experiment.time_scale;
  const auto in_time = std::ranges::count_if(
      r.ttft_ms, [&](double ms) { return ms * scale <= experiment.objective_ms; });
  const auto requests = static_cast<double>(r.sent);
  return {.name = tenant.name,
          .requests = r.sent,
          .answered = r.ok,
          .refused = r.refused,
          .gave_up = r.timed_out + r.broken,
          .ttft_p50_ms = percentile(r.ttft_ms, 50) * scale,
          .ttft_p99_ms = percentile(r.ttft_ms, 99) * scale,
          .e2e_p99_ms = percentile(r.e2e_ms, 99) * scale,
          .in_time = r.sent > 0 ? static_cast<double>(in_time) / requests : 0,
          .tokens_per_s =
              r.seconds > 0 ? static_cast<double>(r.output_tokens) / (r.seconds * scale) : 0};
}

Json to_json(std::span<const TenantFigures> tenants) {
  Json out = Json::object();
  for (const auto& t : tenants)
    out[t.name] = {{"requests", t.requests},        {"answered", t.answered},
                   {"refused", t.refused},          {"gave_up", t.gave_up},
                   {"ttft_p50_ms", t.ttft_p50_ms},  {"ttft_p99_ms", t.ttft_p99_ms},
                   {"e2e_p99_ms", t.e2e_p99_ms},    {"in_time", t.in_time},
                   {"tokens_per_s", t.tokens_per_s}};
  return out;
}

void append(std::vector<double>& into, const std::vector<double>& more) {
  into.insert(into.end(), more.begin(), more.end());
}

struct Row {
  std::string_view name;
  std::string (*show)(const TenantFigures&);
};
constexpr Row kRows[] = {
    {"requests", [](const TenantFigures& t) { return fmt::format("{}", t.requests); }},
    {"answered", [](const TenantFigures& t) { return fmt::format("{}", t.answered); }},
    {"refused", [](const TenantFigures& t) { return fmt::format("{}", t.refused); }},
    {"gave up waiting", [](const TenantFigures& t) { return fmt::format("{}", t.gave_up); }},
    {"TTFT P50",
     [](const TenantFigures& t) { return fmt::format("{:.2f} s", t.ttft_p50_ms / 1e3); }},
    {"TTFT P99",
     [](const TenantFigures& t) { return fmt::format("{:.2f} s", t.ttft_p99_ms / 1e3); }},
    {"whole answer P99",
     [](const TenantFigures& t) { return fmt::format("{:.2f} s", t.e2e_p99_ms / 1e3); }},
    {"first token in time",
     [](const TenantFigures& t) { return fmt::format("{:.1f} %", t.in_time * 100); }},
    {"output tokens/s",
     [](const TenantFigures& t) { return fmt::format("{:.0f}", t.tokens_per_s); }},
};

}  // namespace

std::vector<TenantFigures> summarize(const FlowRun& run, const FlowExperiment& experiment) {
  std::vector<TenantFigures> figures;
  for (const auto& tenant : run.tenants) figures.push_back(figures_of(tenant, experiment));
  return figures;
}

void merge(OpenLoopResult& into, const OpenLoopResult& more) {
  into.sent += more.sent;
  into.ok += more.ok;
  into.refused += more.refused;
  into.broken += more.broken;
  for (const auto& [why, count] : more.why) into.why[why] += count;
  into.timed_out += more.timed_out;
  into.not_sent += more.not_sent;
  into.output_tokens += more.output_tokens;
  into.seconds = std::max(into.seconds, more.seconds);
  append(into.sent_s, more.sent_s);
  append(into.ttft_ms, more.ttft_ms);
  append(into.tpot_ms, more.tpot_ms);
  append(into.e2e_ms, more.e2e_ms);
}

std::string flow_json(const FlowExperiment& experiment) {
  Json report = Json::object();
  for (const auto& run : experiment.runs) report[run.name] = to_json(summarize(run, experiment));
  report["time_scale"] = experiment.time_scale;
  report["objective_ms"] = experiment.objective_ms;
  return report.dump(2) + "\n";
}

std::string flow_table(const FlowExperiment& experiment) {
  std::array<std::vector<TenantFigures>, 2> figures;
  for (size_t i = 0; i < figures.size(); ++i)
    figures[i] = summarize(experiment.runs[i], experiment);
  std::string out;
  auto to = std::back_inserter(out);
  const auto line = [&](std::string_view name, auto show) {
    fmt::format_to(to, "  {:<20}", name);
    for (const auto& run : figures) {
      for (const auto& tenant : run) fmt::format_to(to, " {:>11}", show(tenant));
      out += "  ";
    }
    out += "\n";
  };
  const size_t width = 12 * figures[0].size();
  fmt::format_to(to, "  {:<20}{:^{}}  {:^{}}\n", "", experiment.runs[0].title, width,
                 experiment.runs[1].title, width);
  line("", [](const TenantFigures& t) { return t.name; });
  for (const auto& row : kRows) line(row.name, row.show);
  const auto all_tokens = [&](size_t run) {
    double sum = 0;
    for (const auto& tenant : figures[run]) sum += tenant.tokens_per_s;
    return sum;
  };
  fmt::format_to(to, "\n  output tokens/s of all: {:.0f} {}, {:.0f} {}\n", all_tokens(0),
                 experiment.runs[0].title, all_tokens(1), experiment.runs[1].title);
  if (figures[0].empty() || figures[0][0].answered == 0) return out;
  const auto &before = figures[0][0], &after = figures[1][0];
  fmt::format_to(to, "  {}, P99 {} by P99 {}: first token {:.2f}, whole answer {:.2f}\n",
                 before.name, experiment.runs[1].title, experiment.runs[0].title,
                 after.ttft_p99_ms / before.ttft_p99_ms, after.e2e_p99_ms / before.e2e_p99_ms);
  return out;
}

}  // namespace llmd::bench
