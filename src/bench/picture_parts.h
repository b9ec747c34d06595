#pragma once

#include "bench/svg.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmd::bench {

inline constexpr std::string_view kInk = "#1f2933";
inline constexpr std::string_view kFaint = "#7b8794";
inline constexpr std::string_view kGrid = "#e4e7eb";

/// A logarithmic axis of milliseconds, from pixel `begin` to pixel `end`.
struct TimeAxis {
  double begin, end;
  double from_ms, to_ms;
  /// Times outside are drawn at the ends.
  double at(double ms) const;
};

/// "200 ms" below a second, else "2 s".
std::string time_label(double ms);

struct Bar {
  double value;
  std::optional<double> published;  // marked beside the bar
  std::string label;
  std::string_view colour;
};

/// Bars below each other under a title, with their labels; `most` fills the width.
void draw_bars(Svg& svg, double x, double y, std::string_view title, double most,
               std::span<const Bar> bars);

}  // namespace llmd::bench
