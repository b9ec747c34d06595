#include "bench/report_picture.h"

#include "picture_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace llmd::bench {
namespace {

constexpr double kWidth = 1060;
constexpr double kHeight = 560;
constexpr double kBarsLeft = 700;
constexpr std::string_view kRandomColour = "#d9622b";
constexpr std::string_view kPrefixColour = "#1f78a4";

/// Dots of one policy, piled up from the base line where they would overlap.
void draw_swarm(Svg& svg, const TimeAxis& axis, std::span<const SecondRequest> requests,
                double base, std::string_view colour) {
  constexpr double kRadius = 5;
  std::vector<double> xs;
  for (const auto& r : requests) xs.push_back(axis.at(r.ttft_ms));
  std::ranges::sort(xs);
  std::vector<double> level_ends;  // right edge of the last dot on each level
  for (const double x : xs) {
    size_t level = 0;
    while (level < level_ends.size() && x - kRadius < level_ends[level]) ++level;
    if (level == level_ends.size()) level_ends.push_back(0);
    level_ends[level] = x + kRadius;
    // Levels beyond the room of a row share its top.
    svg.circle(x, base - kRadius - static_cast<double>(std::min<size_t>(level, 13)) * kRadius * 1.9,
               kRadius, colour, 0.75);
  }
}

void draw_markers(Svg& svg, const TimeAxis& axis, const PolicyFigures& measured,
                  const PolicyFigures& published, double base, std::string_view colour) {
  const auto marker = [&](double ms, double reference_ms, std::string_view name,
                          std::string_view anchor) {
    svg.line(axis.at(ms), base - 4, axis.at(ms), base + 16, colour, 2);
    svg.text(axis.at(ms), base + 30, fmt::format("{} {:.0f} ms", name, ms),
             {.size = 12, .colour = colour, .anchor = anchor, .bold = true});
    svg.diamond(axis.at(reference_ms), base + 6, 5, kInk);
  };
  // Labels of near marks grow away from each other.
  const bool near = axis.at(measured.ttft_p95_ms) - axis.at(measured.ttft_p50_ms) < 100;
  marker(measured.ttft_p50_ms, published.ttft_p50_ms, "P50", near ? "end" : "middle");
  marker(measured.ttft_p95_ms, published.ttft_p95_ms, "P95", near ? "start" : "middle");
}

void draw_times(Svg& svg, const Experiment& experiment, const PolicyFigures& random,
                const PolicyFigures& prefix) {
  const TimeAxis axis{60, 640, 80, 3200};
  svg.text(60, 112, "Time to first token of every second request",
           {.size = 15, .colour = kInk, .bold = true});
  for (const double ms : {100.0, 200.0, 500.0, 1000.0, 2000.0}) {
    svg.line(axis.at(ms), 128, axis.at(ms), 486, kGrid);
    svg.text(axis.at(ms), 504, time_label(ms), {.size = 12, .colour = kFaint, .anchor = "middle"});
  }
  const auto row = [&](std::string_view name, std::span<const SecondRequest> requests,
                       const PolicyFigures& measured, const PolicyFigures& published, double base,
                       std::string_view colour) {
    svg.line(axis.begin, base, axis.end, base, kFaint);
    draw_swarm(svg, axis, requests, base, colour);
    draw_markers(svg, axis, measured, published, base, colour);
    svg.text((axis.begin + axis.end) / 2, base - 112, name,
             {.size = 14, .colour = colour, .anchor = "middle", .bold = true});
  };
  row("random", experiment.random, random, kPublishedRandom, 262, kRandomColour);
  row("prefix-aware", experiment.prefix, prefix, kPublishedPrefix, 438, kPrefixColour);
}

}  // namespace

std::string report_picture(const Experiment& experiment, std::string_view caption) {
  const PolicyFigures random = summarize(experiment.random);
  const PolicyFigures prefix = summarize(experiment.prefix);
  Svg svg(kWidth, kHeight, "#ffffff");
  svg.text(40, 44, "The second question about a long context",
           {.size = 22, .colour = kInk, .bold = true});
  svg.text(40, 68, caption, {.size = 12.5, .colour = kFaint});

  draw_times(svg, experiment, random, prefix);

  const Bar returned[] = {{random.return_rate, kPublishedRandom.return_rate,
                           fmt::format("{}/{}", random.returned, random.requests), kRandomColour},
                          {prefix.return_rate, kPublishedPrefix.return_rate,
                           fmt::format("{}/{}", prefix.returned, prefix.requests), kPrefixColour}};
  const Bar hits[] = {{random.token_hit_rate, kPublishedRandom.token_hit_rate,
                       fmt::format("{:.1f} %", random.token_hit_rate * 100), kRandomColour},
                      {prefix.token_hit_rate, kPublishedPrefix.token_hit_rate,
                       fmt::format("{:.1f} %", prefix.token_hit_rate * 100), kPrefixColour}};
  const double most = std::max({random.prefill_tokens_mean, prefix.prefill_tokens_mean,
                                kPublishedRandom.prefill_tokens_mean}) *
                      1.05;
  const Bar prefill[] = {{random.prefill_tokens_mean, kPublishedRandom.prefill_tokens_mean,
                          fmt::format("{:.0f}", random.prefill_tokens_mean), kRandomColour},
                         {prefix.prefill_tokens_mean, kPublishedPrefix.prefill_tokens_mean,
                          fmt::format("{:.0f}", prefix.prefill_tokens_mean), kPrefixColour}};
  draw_bars(svg, kBarsLeft, 142, "Back on the first replica", 1, returned);
  draw_bars(svg, kBarsLeft, 268, "Prompt tokens found in the cache", 1, hits);
  draw_bars(svg, kBarsLeft, 394, "Prefill tokens computed, mean", most, prefill);

  svg.diamond(46, 533, 5, kInk);
  svg.text(58, 537, "published figure for the same work on real servers",
           {.size = 12, .colour = kFaint});
  svg.text(kWidth - 40, 537, "each dot is one request; times in model time, logarithmic",
           {.size = 12, .colour = kFaint, .anchor = "end"});
  return svg.str();
}

}  // namespace llmd::bench
