#pragma once

#include <string>
#include <string_view>

namespace llmd::bench {

/// Writes a picture in SVG, shape by shape; units are pixels, y grows downwards. Colours are CSS
/// names or #rrggbb.
class Svg {
 public:
  Svg(double width, double height, std::string_view background);

  struct Text {
    double size = 13;
    std::string_view colour = "#222";
    std::string_view anchor = "start";  // start, middle, end: which end of the text is at x
    bool bold = false;
  };
  void text(double x, double y, std::string_view content, const Text& style);
  void rect(double x, double y, double width, double height, std::string_view fill,
            double radius = 0);
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double width = 1,
            bool dashed = false);
  void circle(double x, double y, double radius, std::string_view fill, double opacity = 1);
  /// A rhombus around (x, y), outlined only.
  void diamond(double x, double y, double radius, std::string_view colour);

  /// The document so far, complete.
  std::string str() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

}  // namespace llmd::bench
