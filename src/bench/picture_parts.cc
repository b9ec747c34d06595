#include "picture_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace llmd::bench {

double TimeAxis::at(double ms) const {
  const double clamped = std::clamp(ms, from_ms, to_ms);
  return begin + (end - begin) * std::log(clamped / from_ms) / std::log(to_ms / from_ms);
}

std::string time_label(double ms) {
  return ms < 1000 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.0f} s", ms / 1000);
}

void draw_bars(Svg& svg, double x, double y, std::string_view title, double most,
               std::span<const Bar> bars) {
  constexpr double kFull = 230;
  svg.text(x, y, title, {.size = 15, .colour = kInk, .bold = true});
  double top = y + 14;
  for (const auto& bar : bars) {
    const auto length = [&](double value) { return kFull * std::clamp(value / most, 0.0, 1.0); };
    svg.rect(x, top, kFull, 24, "#f0f2f5", 3);
    svg.rect(x, top, std::max(length(bar.value), 2.0), 24, bar.colour, 3);
    if (bar.published) svg.diamond(x + length(*bar.published), top + 12, 5, kInk);
    svg.text(x + kFull + 12, top + 17, bar.label, {.size = 13, .colour = bar.colour, .bold = true});
    top += 32;
  }
}

}  // namespace llmd::bench
