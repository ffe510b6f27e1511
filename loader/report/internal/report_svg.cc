#include "loader/report/internal/report_svg.h"

#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace isocost::report {

std::string number(double value, const char* format) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string shown(double value) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [unit, name] : kUnits) {
    if (value >= unit) return number(value / unit, value / unit < 10 ? "%.1f" : "%.0f") + name;
  }
  return number(value, value >= 10 || value == 0 ? "%.0f" : "%.3g");
}

std::string shown_seconds(double seconds) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{3600, " h"}, {60, " min"}, {1, " s"}, {1e-3, " ms"}}};
  for (const auto& [unit, name] : kUnits) {
    if (seconds >= unit) return number(seconds / unit, "%.3g") + name;
  }
  return number(1e6 * seconds, "%.3g") + (seconds == 0 ? " s" : " µs");
}

std::string escaped(std::string_view text) {
  static const std::map<char, std::string_view> the_escapes = {
      {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
  std::string out;
  for (const char c : text) {
    const auto found = the_escapes.find(c);
    if (found == the_escapes.end()) {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    } else {
      out += found->second;
    }
  }
  return out;
}

std::string text_at(double x, double y, std::string_view anchor, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" +
         std::string(anchor) + "\">" + escaped(text) + "</text>";
}

std::string box(double x, double y, double width, double height, std::string_view colour,
                const std::string& title, double opacity) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
         "\" height=\"" + number(height) + "\" fill=\"" + std::string(colour) +
         "\" fill-opacity=\"" + number(opacity, "%.2f") + "\"><title>" + escaped(title) +
         "</title></rect>";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view colour) {
  return "<path d=\"M" + number(x1) + " " + number(y1) + " L" + number(x2) + " " + number(y2) +
         "\" stroke=\"" + std::string(colour) + "\" fill=\"none\"/>";
}

std::string axes(const std::string& across, const std::string& upwards) {
  return text_at((kLeft + kRight) / 2, kHeight - 6, "middle", across) +
         text_at(4, 14, "start", "↑ " + upwards);
}

std::string figure(const std::string& drawing, const std::string& caption) {
  return "<figure><svg width=\"" + number(kWidth, "%.0f") + "\" height=\"" +
         number(kHeight, "%.0f") + "\" role=\"img\" aria-label=\"" + escaped(caption) + "\">" +
         drawing + "</svg><figcaption>" + escaped(caption) + "</figcaption></figure>\n";
}

}  // namespace isocost::report
