#include "loader/report/internal/report_plots.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/load.h"
#include "loader/report/data_profile.h"
#include "loader/report/internal/report_svg.h"

namespace isocost::report {
namespace {

// Powers of two; zero has a bin of its own in front.
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
  // Not more labels than fit.
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

template <Module kModule>
double units_of(const ProfiledSample& sample) {
  return static_cast<double>(sample.load[kModule].units);
}

std::string histogram(const std::vector<double>& values, std::string_view colour,
                      const std::string& unit) {
  const LogBins bins(values, shown);
  std::vector<std::size_t> counts(bins.size());
  for (const double value : values) ++counts[bins.of(value)];
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  const double step = (kRight - kLeft) / static_cast<double>(bins.size());
  std::string out = line(kLeft, kFloor, kRight, kFloor);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double x = kLeft + step * static_cast<double>(i);
    const double height = (kFloor - kTop) * static_cast<double>(counts[i]) / most;
    out += box(x + 1, kFloor - height, step - 2, height, colour,
               bins.range(i) + " " + unit + ": " + std::to_string(counts[i]) + " samples");
    if (i % bins.label_step(12) == 0) {
      out += text_at(x + step / 2, kFloor + 14, "middle", bins.label(i));
    }
  }
  out += text_at(kLeft - 6, kTop + 4, "end", shown(most)) + text_at(kLeft - 6, kFloor, "end", "0");
  out += axes(unit + " of a sample; each bar up to twice as many", "samples");
  return figure(out, "How many samples have how many " + unit);
}

// Nothing where no sample has any.
std::string histogram_of(const DataProfile& profile, double (*of)(const ProfiledSample&),
                         std::string_view colour, const std::string& unit) {
  const std::vector<double> values = of_samples(profile, of);
  const bool any = std::any_of(values.begin(), values.end(), [](double v) { return v > 0; });
  return any ? histogram(values, colour, unit) : "";
}

std::string joint_labels(const LogBins& columns, const LogBins& rows, double width, double height) {
  std::string out;
  for (std::size_t i = 0; i < columns.size(); i += columns.label_step(8)) {
    out += text_at(kLeft + width * (static_cast<double>(i) + 0.5), kFloor + 14, "middle",
                   columns.label(i));
  }
  for (std::size_t i = 0; i < rows.size(); i += rows.label_step(10)) {
    out +=
        text_at(kLeft - 6, kFloor - height * (static_cast<double>(i) + 0.3), "end", rows.label(i));
  }
  return out;
}

// Seconds: patches and audio positions do not add up.
std::string joint(const DataProfile& profile) {
  const std::vector<double> encoder =
      of_samples(profile, [](const ProfiledSample& sample) { return sample.encoder_s(); });
  const std::vector<double> llm =
      of_samples(profile, [](const ProfiledSample& sample) { return sample.llm_s(); });
  const LogBins columns(encoder, shown_seconds);
  const LogBins rows(llm, shown_seconds);
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> counts;
  std::size_t most = 0;
  for (std::size_t i = 0; i < llm.size(); ++i) {
    most = std::max(most, ++counts[{columns.of(encoder[i]), rows.of(llm[i])}]);
  }
  const double width = (kRight - kLeft) / static_cast<double>(columns.size());
  const double height = (kFloor - kTop) / static_cast<double>(rows.size());
  std::string out = line(kLeft, kFloor, kRight, kFloor) + line(kLeft, kFloor, kLeft, kTop);
  for (const auto& [cell, count] : counts) {
    const double shade = 0.12 + 0.88 * std::log1p(static_cast<double>(count)) /
                                    std::log1p(static_cast<double>(most));
    out += box(kLeft + width * static_cast<double>(cell.first),
               kFloor - height * static_cast<double>(cell.second + 1), width - 1, height - 1,
               kLlmColour,
               columns.range(cell.first) + " in the encoders, " + rows.range(cell.second) +
                   " in the LLM: " + std::to_string(count) + " samples",
               shade);
  }
  out += joint_labels(columns, rows, width, height);
  out += axes("encoder seconds of a sample", "LLM seconds of a sample");
  const auto text = [](const std::optional<double>& value) {
    return value ? number(*value, "%.2f") : "-";
  };
  return figure(
      out, "Encoder and LLM seconds together: the darker, the more samples. Correlation " +
               text(profile.correlation) + " (of ranks " + text(profile.rank_correlation) + ")");
}

std::string concentration(const DataProfile& profile) {
  std::vector<double> seconds =
      of_samples(profile, [](const ProfiledSample& sample) { return sample.total_s(); });
  std::sort(seconds.begin(), seconds.end(), std::greater<>());
  double sum = 0;
  for (const double s : seconds) sum += s;
  const double width = kRight - kLeft;
  std::string path = "M" + number(kLeft) + " " + number(kFloor);
  double taken = 0;
  const std::size_t step = seconds.size() / 200 + 1;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    taken += sum > 0 ? seconds[i] / sum : 0;
    if (i % step != 0 && i + 1 != seconds.size()) continue;
    const double x =
        kLeft + width * static_cast<double>(i + 1) / static_cast<double>(seconds.size());
    path += " L" + number(x) + " " + number(kFloor - (kFloor - kTop) * taken);
  }
  std::string out = line(kLeft, kFloor, kLeft + width, kFloor) + line(kLeft, kFloor, kLeft, kTop) +
                    line(kLeft, kFloor, kRight, kTop, "#ddd");
  out += "<path d=\"" + path + "\" stroke=\"" + std::string(kBlindColour) +
         "\" stroke-width=\"2\" fill=\"none\"/>";
  for (int percent = 0; percent <= 100; percent += 25) {
    const std::string label = std::to_string(percent);
    out += text_at(kLeft + width * percent / 100, kFloor + 14, "middle", label);
    out += text_at(kLeft - 6, kFloor - (kFloor - kTop) * percent / 100 + 4, "end", label);
  }
  out += axes("samples (%), the dearest first", "of all seconds (%)");
  return figure(out, "Share of all seconds that the dearest samples take: the first 1 % take " +
                         number(100 * profile.heaviest_percent_share) + " %");
}

std::string example_batch(const DataProfile& profile) {
  const std::vector<double>& blind = profile.skew.blind.example_rank_s;
  const std::vector<double>& balanced = profile.skew.balanced.example_rank_s;
  const double most = std::max({1e-300, *std::max_element(blind.begin(), blind.end()),
                                *std::max_element(balanced.begin(), balanced.end())});
  double mean = 0;
  for (const double s : blind) mean += s / static_cast<double>(blind.size());
  const double step = (kRight - kLeft) / static_cast<double>(blind.size());
  const auto height = [&](double seconds) { return (kFloor - kTop) * seconds / most; };
  std::string out = line(kLeft, kFloor, kRight, kFloor);
  for (std::size_t rank = 0; rank < blind.size(); ++rank) {
    const double x = kLeft + step * static_cast<double>(rank);
    const std::string name = "rank " + std::to_string(rank);
    out += box(x + step * 0.08, kFloor - height(blind[rank]), step * 0.4, height(blind[rank]),
               kBlindColour, name + ", in order: " + shown_seconds(blind[rank]));
    out += box(x + step * 0.52, kFloor - height(balanced[rank]), step * 0.4, height(balanced[rank]),
               kBalancedColour, name + ", balanced: " + shown_seconds(balanced[rank]));
    if (rank % (blind.size() / 16 + 1) == 0) {
      out += text_at(x + step / 2, kFloor + 14, "middle", std::to_string(rank));
    }
  }
  out += line(kLeft, kFloor - height(mean), kRight, kFloor - height(mean), "#444");
  // Below the label of the highest, where both are near.
  out += text_at(kLeft - 6, std::max(kFloor - height(mean) + 4, kTop + 18), "end", "mean");
  out += text_at(kLeft - 6, kTop + 4, "end", shown_seconds(most)) +
         text_at(kLeft - 6, kFloor, "end", "0");
  out += box(kRight - 160, 6, 10, 10, kBlindColour, "") +
         text_at(kRight - 146, 15, "start", "in order") +
         box(kRight - 75, 6, 10, 10, kBalancedColour, "") +
         text_at(kRight - 61, 15, "start", "balanced");
  out += axes("rank", "seconds a step");
  return figure(out, "One global batch of " + std::to_string(profile.options.global_batch_size) +
                         " samples, rank by rank: the highest bar is the step");
}

}  // namespace

std::string plots(const DataProfile& profile) {
  return histogram_of(profile, units_of<Module::kVision>, kVisionColour, "patches") +
         histogram_of(profile, units_of<Module::kAudio>, kAudioColour, "audio positions") +
         histogram_of(profile, units_of<Module::kLlm>, kLlmColour, "LLM tokens") + joint(profile) +
         concentration(profile) + example_batch(profile);
}

}  // namespace isocost::report
