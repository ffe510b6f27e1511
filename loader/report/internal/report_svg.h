#pragma once

#include <string>
#include <string_view>

namespace isocost {

/// What the data report's plots are drawn of: text for numbers, and SVG elements in a plot of
/// kWidth x kHeight pixels. Names from outside are escaped. Pure.
namespace report {

inline constexpr std::string_view kVisionColour = "#2f8f6f";
inline constexpr std::string_view kAudioColour = "#8a5fb5";
inline constexpr std::string_view kLlmColour = "#4d7fc0";
inline constexpr std::string_view kBlindColour = "#c9803a";
inline constexpr std::string_view kBalancedColour = "#2f8f6f";

inline constexpr double kWidth = 480;
inline constexpr double kHeight = 250;
inline constexpr double kLeft = 60;             ///< Of the plot's area ...
inline constexpr double kRight = kWidth - 20;   ///< ... and its other edges:
inline constexpr double kTop = 30;              ///< above it the vertical axis' name,
inline constexpr double kFloor = kHeight - 36;  ///< below it labels and the other one's.

std::string number(double value, const char* format = "%.1f");
/// Short, for people: "1.2k", "340", "0.012".
std::string shown(double value);
/// The same with its unit: "1.2 ms", "3 h".
std::string shown_seconds(double seconds);
std::string escaped(std::string_view text);

std::string text_at(double x, double y, std::string_view anchor, const std::string& text);
/// `title` is told where the mouse rests.
std::string box(double x, double y, double width, double height, std::string_view colour,
                const std::string& title, double opacity = 1);
std::string line(double x1, double y1, double x2, double y2, std::string_view colour = "#999");
/// Both axes' names, units included.
std::string axes(const std::string& across, const std::string& upwards);
std::string figure(const std::string& drawing, const std::string& caption);

}  // namespace report
}  // namespace isocost
