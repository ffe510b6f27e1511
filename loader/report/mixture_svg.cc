#include "loader/report/mixture_svg.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "loader/report/internal/svg.h"

namespace isocost {
namespace {

using report::Anchor;
using report::Box;
using report::Point;
using report::SvgWriter;
using report::TextStyle;

double read_times(const MixtureCourse::Source& source, std::uint64_t drawn) {
  return static_cast<double>(drawn) / static_cast<double>(std::max<std::uint64_t>(source.size, 1));
}

// Writes one picture.
class MixtureDrawing {
 public:
  explicit MixtureDrawing(const MixtureCourse& course) : course_(course) {}

  std::string file(const std::string& title) {
    svg_.text({kLeft, 24}, title, kHeading);
    draw_shares();
    draw_passes();
    draw_legend();
    return svg_.file(kWidth, kHeight);
  }

 private:
  static constexpr double kLeft = 70;
  static constexpr double kRight = 250;  // room for the legend
  static constexpr double kWidth = 1080;
  static constexpr double kTop = 54;
  static constexpr double kPlot = 200;
  static constexpr double kGap = 66;
  static constexpr double kBottom = 50;
  static constexpr double kHeight = kTop + 2 * kPlot + kGap + kBottom;
  static constexpr double kLegendRow = 18;
  static constexpr std::size_t kMostInLegend = 20;

  static constexpr TextStyle kHeading = {.size = 14, .bold = true};
  static constexpr TextStyle kAxis = {.size = 10, .colour = report::kQuietTextColour};
  static constexpr TextStyle kAxisEnd = {
      .anchor = Anchor::kEnd, .size = 10, .colour = report::kQuietTextColour};
  static constexpr TextStyle kAxisMiddle = {
      .anchor = Anchor::kMiddle, .size = 10, .colour = report::kQuietTextColour};
  // Told apart also by those who see few colours; they repeat after ten sources.
  static constexpr std::array<std::string_view, 10> kColours = {
      "#2c6fbb", "#e0902f", "#3f9f7f", "#c2504d", "#8d6cb3",
      "#7a6a58", "#d77fb4", "#6f7780", "#b5b03c", "#3aaec0"};

  static std::string_view colour_of(std::size_t source) {
    return kColours.at(source % kColours.size());
  }

  double x_of(std::uint64_t position) const {
    const double all = static_cast<double>(std::max<std::uint64_t>(course_.edges.back(), 1));
    return kLeft + (kWidth - kLeft - kRight) * static_cast<double>(position) / all;
  }

  void draw_shares() {
    for (std::size_t e = 0; e + 1 < course_.edges.size(); ++e) draw_column(e);
    for (const int percent : {0, 50, 100}) {
      const double y = kTop + kPlot * (1 - percent / 100.0);
      svg_.text({kLeft - 8, y + 4}, fmt::format("{} %", percent), kAxisEnd);
    }
    svg_.text({kLeft, kTop - 8}, "share of the samples", kAxis);
    draw_positions(kTop + kPlot);
  }

  // Draws the shares between two edges, one above the other.
  void draw_column(std::size_t edge) {
    const auto given = [edge](const MixtureCourse::Source& source) {
      return static_cast<double>(source.drawn[edge + 1] - source.drawn[edge]);
    };
    double all = 0;
    for (const MixtureCourse::Source& source : course_.sources) all += given(source);
    if (all == 0) return;
    const double x = x_of(course_.edges[edge]);
    const double width = x_of(course_.edges[edge + 1]) - x;
    double y = kTop + kPlot;
    for (std::size_t i = 0; i < course_.sources.size(); ++i) {
      const MixtureCourse::Source& source = course_.sources[i];
      const double share = given(source) / all;
      if (share == 0) continue;
      y -= kPlot * share;
      const std::string title =
          fmt::format("{}: {:.1f} % of steps {} to {}", source.name, 100 * share,
                      course_.edges[edge], course_.edges[edge + 1] - 1);
      svg_.box({x, y, width + 0.3, kPlot * share}, colour_of(i), {.title = title});
    }
  }

  void draw_passes() {
    const double top = kTop + kPlot + kGap;
    double most = 1;
    for (const MixtureCourse::Source& source : course_.sources) {
      most = std::max(most, read_times(source, source.drawn.back()));
    }
    for (std::size_t i = 0; i < course_.sources.size(); ++i) {
      const MixtureCourse::Source& source = course_.sources[i];
      std::vector<Point> points;
      points.reserve(course_.edges.size());
      for (std::size_t e = 0; e < course_.edges.size(); ++e) {
        const double height = kPlot * read_times(source, source.drawn[e]) / most;
        points.push_back({x_of(course_.edges[e]), top + kPlot - height});
      }
      svg_.curve(points, colour_of(i), 2);
    }
    svg_.text({kLeft, top - 8}, "times that each source has been read", kAxis);
    for (const double part : {0.0, 0.5, 1.0}) {
      svg_.text({kLeft - 8, top + kPlot * (1 - part) + 4}, report::short_number(most * part),
                kAxisEnd);
    }
    draw_positions(top + kPlot);
    svg_.text({(kLeft + kWidth - kRight) / 2, top + kPlot + 34}, "step", kAxisMiddle);
  }

  void draw_positions(double y) {
    svg_.line({kLeft, y}, {kWidth - kRight, y});
    constexpr std::uint64_t kTicks = 5;
    for (std::uint64_t tick = 0; tick <= kTicks; ++tick) {
      const std::uint64_t position = course_.edges.back() * tick / kTicks;
      svg_.line({x_of(position), y}, {x_of(position), y + 4});
      svg_.text({x_of(position), y + 16}, std::to_string(position), kAxisMiddle);
    }
  }

  void draw_legend() {
    const double x = kWidth - kRight + 24;
    double y = kTop + 4;
    // The one that is drawn highest comes first.
    const std::size_t shown = std::min(course_.sources.size(), kMostInLegend);
    for (std::size_t left = course_.sources.size(); left > course_.sources.size() - shown; --left) {
      const MixtureCourse::Source& source = course_.sources[left - 1];
      svg_.box({x, y, 12, 12}, colour_of(left - 1));
      svg_.text({x + 18, y + 10},
                fmt::format("{} (read {} times)", source.name,
                            report::short_number(read_times(source, source.drawn.back()))),
                {});
      y += kLegendRow;
    }
    if (shown < course_.sources.size()) {
      svg_.text({x, y + 10}, fmt::format("and {} more", course_.sources.size() - shown), kAxis);
    }
  }

  const MixtureCourse& course_;
  SvgWriter svg_;
};

}  // namespace

std::string draw_mixture(const MixtureCourse& course, const std::string& title) {
  return MixtureDrawing(course).file(title);
}

}  // namespace isocost
