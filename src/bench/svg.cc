#include "bench/svg.h"

#include <fmt/format.h>

#include <iterator>

namespace llmd::bench {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

Svg::Svg(double width, double height, std::string_view background) {
  fmt::format_to(std::back_inserter(body_),
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
                 "viewBox=\"0 0 {0} {1}\" "
                 "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n",
                 width, height);
  rect(0, 0, width, height, background);
}

void Svg::text(double x, double y, std::string_view content, const Text& style) {
  fmt::format_to(std::back_inserter(body_),
                 "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" "
                 "text-anchor=\"{}\"{}>{}</text>\n",
                 x, y, style.size, style.colour, style.anchor,
                 style.bold ? " font-weight=\"bold\"" : "", escaped(content));
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill,
               double radius) {
  fmt::format_to(std::back_inserter(body_),
                 "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{}\" "
                 "fill=\"{}\"/>\n",
                 x, y, width, height, radius, fill);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view colour, double width,
               bool dashed) {
  fmt::format_to(std::back_inserter(body_),
                 "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
                 "stroke-width=\"{}\"{}/>\n",
                 x1, y1, x2, y2, colour, width, dashed ? " stroke-dasharray=\"4 3\"" : "");
}

void Svg::circle(double x, double y, double radius, std::string_view fill, double opacity) {
  fmt::format_to(std::back_inserter(body_),
                 "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" fill-opacity=\"{}\"/>\n",
                 x, y, radius, fill, opacity);
}

void Svg::diamond(double x, double y, double radius, std::string_view colour) {
  fmt::format_to(std::back_inserter(body_),
                 "<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" "
                 "fill=\"none\" stroke=\"{}\" "
                 "stroke-width=\"1.5\"/>\n",
                 x, y - radius, x + radius, y, x, y + radius, x - radius, y, colour);
}

}  // namespace llmd::bench
