#pragma once

#include <span>
#include <string>
#include <string_view>

namespace isocost::report {

inline constexpr std::string_view kTextColour = "#222222";
inline constexpr std::string_view kQuietTextColour = "#555555";
inline constexpr std::string_view kLineColour = "#999999";

/// Returns `text` as content or as a quoted attribute of HTML and XML: & < > " ' are escaped, and
/// characters that neither may hold (bytes that are not UTF-8, control characters, U+FFFE and
/// U+FFFF) become '?'.
std::string escaped(std::string_view text);

/// Returns a number in few letters: "1.2k", "340", "0.012".
std::string short_number(double value);
/// Returns seconds in few letters with a unit: "1.2 ms", "3 h".
std::string short_seconds(double seconds);

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

struct BoxStyle {
  std::string_view title = {};  ///< Shown where the pointer rests.
  double opacity = 1;
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  Anchor anchor = Anchor::kStart;
  double size = 11;
  std::string_view colour = kTextColour;
  bool bold = false;
};

/// Writes drawings: the only place that makes SVG elements. Units are pixels, y grows downwards,
/// and later elements cover earlier ones. Texts and titles are escaped; colours are plain ones like
/// "#1f6a54", never CSS variables, so that every renderer knows them. Single-thread.
class SvgWriter {
 public:
  void box(const Box& box, std::string_view colour, const BoxStyle& style = {});
  void line(const Point& from, const Point& to, std::string_view colour = kLineColour,
            double width = 1);
  /// Draws a line through all points.
  void curve(std::span<const Point> points, std::string_view colour, double width);
  /// Writes text; `at` is on the base line, at the text's start, middle or end.
  void text(const Point& at, std::string_view text, const TextStyle& style = {});

  /// Returns the drawing as an element of an HTML page; `label` describes it to screen readers.
  std::string html(double width, double height, std::string_view label) const;
  /// Returns the drawing on white as a file of its own.
  std::string file(double width, double height) const;

 private:
  std::string elements_;
};

}  // namespace isocost::report
