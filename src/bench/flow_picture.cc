#include "picture_parts.h"

#include "bench/flow_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace llmd::bench {
namespace {

constexpr double kWidth = 1060;
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
  for (const auto* run : {&experiment.without, &experiment.with})
    for (const auto& tenant : *run)
      for (const double at : tenant.result.sent_s) last = std::max(last, at);
  return std::max(last * experiment.time_scale, 1.0);
}

class Picture {
 public:
  Picture(const FlowExperiment& experiment, Svg& svg)
      : experiment_(experiment), svg_(svg), span_(span_of(experiment)) {}

  /// Every answered request of a run as a dot.
  void panel(double top, std::string_view title, std::span<const TenantRun> tenants) {
    const TimeAxis axis{top + kPanelHeight, top, 50, 100'000};
    svg_.text(kLeft, top - 10, title, {.size = 15, .colour = kInk, .bold = true});
    for (const double ms : {100.0, 1000.0, 10'000.0, 100'000.0}) {
      svg_.line(kLeft, axis.at(ms), kRight, axis.at(ms), kGrid);
      svg_.text(kLeft - 8, axis.at(ms) + 4, time_label(ms),
                {.size = 12, .colour = kFaint, .anchor = "end"});
    }
    const double objective = axis.at(experiment_.objective_ms);
    svg_.line(kLeft, objective, kRight, objective, kFaint, 1, true);
    for (size_t i = 0; i < tenants.size(); ++i)
      for (size_t k = 0; k < tenants[i].result.sent_s.size(); ++k)
        svg_.circle(x(tenants[i].result.sent_s[k]),
                    axis.at(tenants[i].result.ttft_ms[k] * experiment_.time_scale), 2.5,
                    colour_of(i), 0.6);
  }

  void seconds_axis(double y) {
    const double step = std::max(std::round(span_ / 60) * 10, 1.0);
    for (int i = 0; i * step <= span_; ++i)
      svg_.text(x(i * step / experiment_.time_scale), y, fmt::format("{:.0f} s", i * step),
                {.size = 12, .colour = kFaint, .anchor = "middle"});
  }

 private:
  double x(double seconds) const {
    return kLeft + (kRight - kLeft) * seconds * experiment_.time_scale / span_;
  }

  const FlowExperiment& experiment_;
  Svg& svg_;
  const double span_;
};

}  // namespace

std::string flow_picture(const FlowExperiment& experiment, std::string_view caption) {
  Svg svg(kWidth, kHeight, "#ffffff");
  svg.text(40, 44, "A saturated fleet, with and without flow control",
           {.size = 22, .colour = kInk, .bold = true});
  svg.text(40, 68, caption, {.size = 12.5, .colour = kFaint});

  Picture picture(experiment, svg);
  picture.panel(120, "Without: time to first token of every answered request", experiment.without);
  picture.panel(400, "With", experiment.with);
  picture.seconds_axis(400 + kPanelHeight + 22);

  const auto without = summarize(experiment.without, experiment);
  const auto with = summarize(experiment.with, experiment);
  for (size_t i = 0; i < std::min(without.size(), with.size()); ++i) {
    const auto bar = [&](const TenantFigures& t, std::string_view run) {
      return Bar{t.in_time, {}, fmt::format("{:.0f} % {}", t.in_time * 100, run), colour_of(i)};
    };
    const Bar bars[] = {bar(without[i], "without"), bar(with[i], "with")};
    draw_bars(svg, kBarsLeft, 130 + static_cast<double>(i) * 120,
              fmt::format("{}: first token in time", with[i].name), 1, bars);
  }
  svg.text(40, kHeight - 20,
           fmt::format("dashed: the objective, {}; by when the request was sent; times in model "
                       "time, logarithmic; requests without an answer count as late",
                       time_label(experiment.objective_ms)),
           {.size = 12, .colour = kFaint});
  return svg.str();
}

}  // namespace llmd::bench
