#include "loader/report/internal/svg.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/utf8.h"

namespace isocost::report {
namespace {

// Returns a number with at most two decimals. No renderer takes numbers that are not finite.
std::string coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

// Writes an element; all elements are written here. Attributes with an empty value are left out;
// `content` is markup.
std::string element(std::string_view name, Attributes attributes, std::string_view content = {}) {
  std::string out = "<";
  out += name;
  for (const auto& [key, value] : attributes) {
    if (value.empty()) continue;
    out.append(" ").append(key).append("=\"").append(escaped(value)).append("\"");
  }
  if (content.empty()) return out + "/>";
  return out.append(">").append(content).append("</").append(name).append(">");
}

std::string_view name_of(Anchor anchor) {
  switch (anchor) {
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
    default:
      return "";  // start is the default
  }
}

std::string view_box(double width, double height) {
  return "0 0 " + coordinate(width) + " " + coordinate(height);
}

constexpr std::string_view kFont = "sans-serif";

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  for (const std::string_view no_character : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = 0; (at = out.find(no_character, at)) != std::string::npos; ++at) {
      out.replace(at, no_character.size(), "?");
    }
  }
  return out;
}

std::string short_number(double value) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [unit, name] : kUnits) {
    if (value >= unit)
      return fmt::format("{:.{}f}{}", value / unit, value / unit < 10 ? 1 : 0, name);
  }
  return value >= 10 || value == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string short_seconds(double seconds) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{3600, "h"}, {60, "min"}, {1, "s"}, {1e-3, "ms"}}};
  for (const auto& [unit, name] : kUnits) {
    if (seconds >= unit) return fmt::format("{:.3g} {}", seconds / unit, name);
  }
  return seconds == 0 ? "0 s" : fmt::format("{:.3g} µs", 1e6 * seconds);
}

void SvgWriter::box(const Box& box, std::string_view colour, const BoxStyle& style) {
  const std::string title = style.title.empty() ? "" : element("title", {}, escaped(style.title));
  elements_ += element("rect",
                       {{"x", coordinate(box.x)},
                        {"y", coordinate(box.y)},
                        {"width", coordinate(box.width)},
                        {"height", coordinate(box.height)},
                        {"fill", colour},
                        {"fill-opacity", style.opacity < 1 ? coordinate(style.opacity) : ""}},
                       title) +
               "\n";
}

void SvgWriter::line(const Point& from, const Point& to, std::string_view colour, double width) {
  elements_ += element("line", {{"x1", coordinate(from.x)},
                                {"y1", coordinate(from.y)},
                                {"x2", coordinate(to.x)},
                                {"y2", coordinate(to.y)},
                                {"stroke", colour},
                                {"stroke-width", coordinate(width)}}) +
               "\n";
}

void SvgWriter::curve(std::span<const Point> points, std::string_view colour, double width) {
  std::string path;
  for (const Point& point : points) {
    if (!path.empty()) path += ' ';
    path += coordinate(point.x) + "," + coordinate(point.y);
  }
  elements_ += element("polyline", {{"points", path},
                                    {"fill", "none"},
                                    {"stroke", colour},
                                    {"stroke-width", coordinate(width)}}) +
               "\n";
}

void SvgWriter::text(const Point& at, std::string_view text, const TextStyle& style) {
  if (text.empty()) return;
  elements_ += element("text",
                       {{"x", coordinate(at.x)},
                        {"y", coordinate(at.y)},
                        {"text-anchor", name_of(style.anchor)},
                        {"font-size", coordinate(style.size)},
                        {"font-weight", style.bold ? "bold" : ""},
                        {"fill", style.colour}},
                       escaped(text)) +
               "\n";
}

std::string SvgWriter::html(double width, double height, std::string_view label) const {
  return element("svg",
                 {{"width", coordinate(width)},
                  {"height", coordinate(height)},
                  {"viewBox", view_box(width, height)},
                  {"font-family", kFont},
                  {"role", "img"},
                  {"aria-label", label}},
                 "\n" + elements_) +
         "\n";
}

std::string SvgWriter::file(double width, double height) const {
  SvgWriter background;
  background.box({0, 0, width, height}, "#ffffff");
  return element("svg",
                 {{"xmlns", "http://www.w3.org/2000/svg"},
                  {"width", coordinate(width)},
                  {"height", coordinate(height)},
                  {"viewBox", view_box(width, height)},
                  {"font-family", kFont}},
                 "\n" + background.elements_ + elements_) +
         "\n";
}

}  // namespace isocost::report
