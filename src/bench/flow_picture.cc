#include "picture_parts.h"

#include "bench/flow_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

namespace llmd::bench {
namespace {

constexpr double kWidth = 1100;
constexpr double kLeastMs = 20;
constexpr double kHeight = 700;
constexpr double kLeft = 90;
constexpr double kRight = 660;
constexpr double kPanelHeight = 220;
constexpr double kBarsLeft = 720;
constexpr std::string_view kColours[] = {"#1f78a4", "#d9622b", "#8a9a5b", "#7b5ea7"};

std::string_view colour_of(size_t tenant) {
  return kColours[tenant % std::size(kColours)];
}

/// The time from the first arrival to the last one that was answered, model seconds, at least one.
double span_of(const FlowExperiment& experiment) {
  double last = 0;
  for (const auto& run : experiment.runs)
    for (const auto& tenant : run.tenants)
      for (const double at : tenant.result.sent_s) last = std::max(last, at);
  return std::max(last * experiment.time_scale, 1.0);
}

/// The power of ten above all times to the first token, model time, at least 10 s.
double most_of(const FlowExperiment& experiment) {
  double most = 10'000;
  for (const auto& run : experiment.runs)
    for (const auto& tenant : run.tenants)
      for (const double ms : tenant.result.ttft_ms)
        while (ms * experiment.time_scale > most) most *= 10;
  return most;
}

class Picture {
 public:
  Picture(const FlowExperiment& experiment, Svg& svg)
      : experiment_(experiment),
        svg_(svg),
        span_(span_of(experiment)),
        most_ms_(most_of(experiment)) {}

  /// Every answered request of a run as a dot, in the order of sending, so that no tenant hides
  /// another.
  void panel(double top, const FlowRun& run) {
    const TimeAxis axis{top + kPanelHeight, top, kLeastMs, most_ms_};
    std::string title = run.title + ": time to first token of every answered request";
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    svg_.text(kLeft, top - 10, title, {.size = 15, .colour = kInk, .bold = true});
    for (double ms = 100; ms <= most_ms_; ms *= 10) {
      svg_.line(kLeft, axis.at(ms), kRight, axis.at(ms), kGrid);
      svg_.text(kLeft - 8, axis.at(ms) + 4, time_label(ms),
                {.size = 12, .colour = kFaint, .anchor = "end"});
    }
    const double objective = axis.at(experiment_.objective_ms);
    svg_.line(kLeft, objective, kRight, objective, kFaint, 1, true);
    for (const auto& dot : dots(run))
      svg_.circle(x(dot.sent_s), axis.at(dot.ttft_ms), 2, colour_of(dot.tenant), 0.55);
  }

  void seconds_axis(double y) {
    const double step = std::max(std::round(span_ / 60) * 10, 1.0);
    for (int i = 0; i * step <= span_; ++i)
      svg_.text(x(i * step / experiment_.time_scale), y, fmt::format("{:.0f} s", i * step),
                {.size = 12, .colour = kFaint, .anchor = "middle"});
  }

 private:
  struct Dot {
    double sent_s;
    double ttft_ms;  // model time
    size_t tenant;
  };
  std::vector<Dot> dots(const FlowRun& run) const {
    std::vector<Dot> all;
    for (size_t i = 0; i < run.tenants.size(); ++i) {
      const auto& seen = run.tenants[i].result;
      for (size_t k = 0; k < seen.sent_s.size(); ++k)
        all.push_back({seen.sent_s[k], seen.ttft_ms[k] * experiment_.time_scale, i});
    }
    std::ranges::sort(all, {}, &Dot::sent_s);
    return all;
  }

  double x(double seconds) const {
    return kLeft + (kRight - kLeft) * seconds * experiment_.time_scale / span_;
  }

  const FlowExperiment& experiment_;
  Svg& svg_;
  const double span_;
  const double most_ms_;
};

}  // namespace

std::string flow_picture(const FlowExperiment& experiment, std::string_view caption) {
  Svg svg(kWidth, kHeight, "#ffffff");
  svg.text(40, 44, experiment.title, {.size = 22, .colour = kInk, .bold = true});
  svg.text(40, 68, caption, {.size = 12.5, .colour = kFaint});

  Picture picture(experiment, svg);
  for (size_t i = 0; i < experiment.runs.size(); ++i)
    picture.panel(120 + 280 * static_cast<double>(i), experiment.runs[i]);
  picture.seconds_axis(400 + kPanelHeight + 22);

  const auto& [first, second] = experiment.runs;
  const auto before = summarize(first, experiment), after = summarize(second, experiment);
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    const auto bar = [&](const TenantFigures& t, std::string_view run) {
      return Bar{t.in_time, {}, fmt::format("{:.0f} % {}", t.in_time * 100, run), colour_of(i)};
    };
    const Bar bars[] = {bar(before[i], first.name), bar(after[i], second.name)};
    draw_bars(svg, kBarsLeft, 130 + static_cast<double>(i) * 120,
              fmt::format("{}: first token in time", after[i].name), 1, bars);
  }
  svg.text(40, kHeight - 20,
           fmt::format("dashed: the objective, {}; by when the request was sent; times in model "
                       "time, logarithmic; requests without an answer count as late",
                       time_label(experiment.objective_ms)),
           {.size = 12, .colour = kFaint});
  return svg.str();
}

}  // namespace llmd::bench
