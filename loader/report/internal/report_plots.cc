#include "loader/report/internal/report_plots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/load.h"
#include "base/statistics.h"
#include "loader/plan/plan_options.h"
#include "loader/report/data_profile.h"
#include "loader/report/internal/svg.h"

namespace isocost::report {
namespace {

constexpr std::string_view kVisionColour = "#2f8f6f";
constexpr std::string_view kAudioColour = "#8a5fb5";
constexpr std::string_view kLlmColour = "#4d7fc0";
constexpr std::string_view kShareColour = "#c9803a";
// Colours, in the order of the policies' enumerators.
constexpr std::array<std::string_view, kBalancePolicyNames.size()> kPolicyColours = {
    "#c9803a", "#4d7fc0", "#2f8f6f"};

constexpr double kWidth = 480;
constexpr double kHeight = 250;
// Edges of a plot's area: the name of the vertical axis is above it, labels and the name of the
// horizontal axis are below.
constexpr double kLeft = 60;
constexpr double kRight = kWidth - 20;
constexpr double kTop = 30;
constexpr double kFloor = kHeight - 36;

// A plot with axes and a caption.
class Plot {
 public:
  Plot() { svg_.line({kLeft, kFloor}, {kRight, kFloor}); }

  SvgWriter& svg() { return svg_; }
  void vertical_axis() { svg_.line({kLeft, kFloor}, {kLeft, kTop}); }
  // Draw labels below and to the left of the area.
  void label_x(double x, std::string_view text) { write(x, kFloor + 14, Anchor::kMiddle, text); }
  void label_y(double y, std::string_view text) { write(kLeft - 6, y, Anchor::kEnd, text); }
  void name_axes(std::string_view across, std::string_view upwards) {
    write((kLeft + kRight) / 2, kHeight - 6, Anchor::kMiddle, across);
    write(4, 14, Anchor::kStart, "↑ " + std::string(upwards));
  }
  void legend(double x, std::string_view colour, std::string_view text) {
    svg_.box({x, 6, 10, 10}, colour);
    write(x + 14, 15, Anchor::kStart, text);
  }
  std::string figure(std::string_view caption) const {
    return "<figure>" + svg_.html(kWidth, kHeight, caption) + "<figcaption>" + escaped(caption) +
           "</figcaption></figure>\n";
  }

 private:
  void write(double x, double y, Anchor anchor, std::string_view text) {
    svg_.text({x, y}, text, {.anchor = anchor, .colour = kQuietTextColour});
  }

  SvgWriter svg_;
};

// Bins from one power of two to the next, preceded by a bin for zeros.
class LogBins {
 public:
  LogBins(const std::vector<double>& values, std::string (*text)(double)) : text_(text) {
    double least = 0;
    double most = 0;
    for (const double value : values) {
      if (value <= 0) {
        zero_ = true;
        continue;
      }
      least = least == 0 ? value : std::min(least, value);
      most = std::max(most, value);
    }
    first_ = least > 0 ? static_cast<int>(std::floor(std::log2(least))) : 0;
    last_ = most > 0 ? static_cast<int>(std::floor(std::log2(most))) : first_ - 1;
  }
  std::size_t size() const {
    return static_cast<std::size_t>(last_ - first_ + 1) + (zero_ ? 1 : 0);
  }
  std::size_t of(double value) const {
    if (value <= 0) return 0;
    const int power = std::clamp(static_cast<int>(std::floor(std::log2(value))), first_, last_);
    return static_cast<std::size_t>(power - first_) + (zero_ ? 1 : 0);
  }
  std::string label(std::size_t bin) const {
    if (zero_ && bin == 0) return "0";
    return text_(edge(bin));
  }
  std::string range(std::size_t bin) const {
    if (zero_ && bin == 0) return "0";
    return label(bin) + " to " + text_(2 * edge(bin));
  }
  // Returns the number of bins per label, with room for `room` labels.
  std::size_t label_step(std::size_t room) const { return size() / (room + 1) + 1; }

 private:
  double edge(std::size_t bin) const {
    return std::exp2(first_ + static_cast<int>(bin) - (zero_ ? 1 : 0));
  }

  std::string (*text_)(double);
  int first_ = 0;
  int last_ = 0;
  bool zero_ = false;
};

std::vector<double> of_samples(const DataProfile& profile, double (*of)(const ProfiledSample&)) {
  std::vector<double> values(profile.samples.size());
  std::transform(profile.samples.begin(), profile.samples.end(), values.begin(), of);
  return values;
}

template <CostModule kModule>
double units_of(const ProfiledSample& sample) {
  return static_cast<double>(sample.load[kModule].units);
}

std::string histogram(const std::vector<double>& values, std::string_view colour,
                      const std::string& unit) {
  const LogBins bins(values, short_number);
  std::vector<std::size_t> counts(bins.size());
  for (const double value : values) ++counts[bins.of(value)];
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  const double step = (kRight - kLeft) / static_cast<double>(bins.size());
  Plot plot;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double x = kLeft + step * static_cast<double>(i);
    const double height = (kFloor - kTop) * static_cast<double>(counts[i]) / most;
    plot.svg().box(
        {x + 1, kFloor - height, step - 2, height}, colour,
        {.title = fmt::format("{} {}: {}", bins.range(i), unit, counted(counts[i], "sample"))});
    if (i % bins.label_step(12) == 0) plot.label_x(x + step / 2, bins.label(i));
  }
  plot.label_y(kTop + 4, short_number(most));
  plot.label_y(kFloor, "0");
  plot.name_axes(unit + " per sample (logarithmic bins)", "samples");
  return plot.figure("Distribution of " + unit + " over the samples");
}

// Returns a histogram; nothing if all values are 0.
std::string histogram_of(const DataProfile& profile, double (*of)(const ProfiledSample&),
                         std::string_view colour, const std::string& unit) {
  const std::vector<double> values = of_samples(profile, of);
  const bool any = std::any_of(values.begin(), values.end(), [](double v) { return v > 0; });
  return any ? histogram(values, colour, unit) : "";
}

void label_bins(const LogBins& columns, const LogBins& rows, double width, double height,
                Plot& plot) {
  for (std::size_t i = 0; i < columns.size(); i += columns.label_step(8)) {
    plot.label_x(kLeft + width * (static_cast<double>(i) + 0.5), columns.label(i));
  }
  for (std::size_t i = 0; i < rows.size(); i += rows.label_step(10)) {
    plot.label_y(kFloor - height * (static_cast<double>(i) + 0.3), rows.label(i));
  }
}

// Plots encoder against LLM in seconds, because patches and audio positions do not add up.
std::string encoder_against_llm(const DataProfile& profile) {
  const std::vector<double> encoder =
      of_samples(profile, [](const ProfiledSample& sample) { return sample.encoder_s(); });
  const std::vector<double> llm =
      of_samples(profile, [](const ProfiledSample& sample) { return sample.llm_s(); });
  const LogBins columns(encoder, short_seconds);
  const LogBins rows(llm, short_seconds);
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> counts;
  std::size_t most = 0;
  for (std::size_t i = 0; i < llm.size(); ++i) {
    most = std::max(most, ++counts[{columns.of(encoder[i]), rows.of(llm[i])}]);
  }
  const double width = (kRight - kLeft) / static_cast<double>(columns.size());
  const double height = (kFloor - kTop) / static_cast<double>(rows.size());
  Plot plot;
  plot.vertical_axis();
  for (const auto& [cell, count] : counts) {
    const double shade = 0.12 + 0.88 * std::log1p(static_cast<double>(count)) /
                                    std::log1p(static_cast<double>(most));
    const Box box{kLeft + width * static_cast<double>(cell.first),
                  kFloor - height * static_cast<double>(cell.second + 1), width - 1, height - 1};
    plot.svg().box(box, kLlmColour,
                   {.title = fmt::format("encoders {}, LLM {}: {}", columns.range(cell.first),
                                         rows.range(cell.second), counted(count, "sample")),
                    .opacity = shade});
  }
  label_bins(columns, rows, width, height, plot);
  plot.name_axes("encoder seconds per sample", "LLM seconds per sample");
  const auto text = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.2f}", *value) : "-";
  };
  return plot.figure("Encoder against LLM seconds; darker cells hold more samples. Correlation " +
                     text(profile.correlation) + ", rank correlation " +
                     text(profile.rank_correlation));
}

std::string concentration(const DataProfile& profile) {
  std::vector<double> seconds =
      of_samples(profile, [](const ProfiledSample& sample) { return sample.total_s(); });
  std::sort(seconds.begin(), seconds.end(), std::greater<>());
  double sum = 0;
  for (const double s : seconds) sum += s;
  const double width = kRight - kLeft;
  std::vector<Point> points = {{kLeft, kFloor}};
  double taken = 0;
  const std::size_t step = seconds.size() / 200 + 1;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    taken += sum > 0 ? seconds[i] / sum : 0;
    if (i % step != 0 && i + 1 != seconds.size()) continue;
    points.push_back(
        {kLeft + width * static_cast<double>(i + 1) / static_cast<double>(seconds.size()),
         kFloor - (kFloor - kTop) * taken});
  }
  Plot plot;
  plot.vertical_axis();
  plot.svg().line({kLeft, kFloor}, {kRight, kTop}, "#dddddd");
  plot.svg().curve(points, kShareColour, 2);
  for (int percent = 0; percent <= 100; percent += 25) {
    const std::string label = std::to_string(percent);
    plot.label_x(kLeft + width * percent / 100, label);
    plot.label_y(kFloor - (kFloor - kTop) * percent / 100 + 4, label);
  }
  plot.name_axes("samples (%), most expensive first", "share of all seconds (%)");
  return plot.figure(
      fmt::format("Share of all seconds that the most expensive samples take. The most expensive "
                  "1 % take {:.1f} %",
                  100 * profile.most_expensive_percent_share));
}

// The highest bar of any policy, and the mean over the ranks, which is never above any policy's
// highest bar.
struct ExampleScale {
  double most = 1e-300;
  double mean = 0;
};

ExampleScale scale_of(const CostSkew& skew) {
  ExampleScale scale;
  for (const CostSkew::Policy& policy : skew.policies) {
    for (const double s : policy.example_rank_s) scale.most = std::max(scale.most, s);
  }
  scale.mean = mean(skew[BalancePolicy::kInOrder].example_rank_s);
  return scale;
}

std::string example_batch(const DataProfile& profile) {
  const CostSkew& skew = profile.skew;
  const ExampleScale scale = scale_of(skew);
  const std::size_t ranks = skew.policies.front().example_rank_s.size();
  const double step = (kRight - kLeft) / static_cast<double>(ranks);
  const double width = step * 0.84 / static_cast<double>(kPolicyColours.size());
  const auto height = [&](double seconds) { return (kFloor - kTop) * seconds / scale.most; };
  Plot plot;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double x = kLeft + step * static_cast<double>(rank);
    for (std::size_t p = 0; p < kPolicyColours.size(); ++p) {
      const double seconds = skew.policies.at(p).example_rank_s[rank];
      plot.svg().box({x + step * 0.08 + width * static_cast<double>(p), kFloor - height(seconds),
                      width * 0.95, height(seconds)},
                     kPolicyColours.at(p),
                     {.title = fmt::format("rank {}, {}: {}", rank, kBalancePolicyNames.at(p),
                                           short_seconds(seconds))});
    }
    if (rank % (ranks / 16 + 1) == 0) plot.label_x(x + step / 2, std::to_string(rank));
  }
  const double mean_y = kFloor - height(scale.mean);
  plot.svg().line({kLeft, mean_y}, {kRight, mean_y}, "#444444");
  // The label must not cover that of the highest bar, if both are near.
  plot.label_y(std::max(mean_y + 4, kTop + 18), "mean");
  plot.label_y(kTop + 4, short_seconds(scale.most));
  plot.label_y(kFloor, "0");
  double x = kRight;
  for (std::size_t p = kPolicyColours.size(); p-- > 0;) {
    x -= 30 + 6 * static_cast<double>(
                      kBalancePolicyNames.at(p).size());  // width of its mark and letters
    plot.legend(x, kPolicyColours.at(p), kBalancePolicyNames.at(p));
  }
  plot.name_axes("rank", "seconds per step");
  return plot.figure(
      fmt::format("One global batch of {}, rank by rank, by policy. The highest bar of a policy is "
                  "its step",
                  counted(profile.options.global_batch_size, "sample")));
}

}  // namespace

std::string plots(const DataProfile& profile) {
  return histogram_of(profile, units_of<CostModule::kVision>, kVisionColour, "vision patches") +
         histogram_of(profile, units_of<CostModule::kAudio>, kAudioColour, "audio positions") +
         histogram_of(profile, units_of<CostModule::kLlm>, kLlmColour, "LLM tokens") +
         encoder_against_llm(profile) + concentration(profile) + example_batch(profile);
}

}  // namespace isocost::report
