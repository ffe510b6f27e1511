#include "loader/data_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/internal/statistics.h"

namespace isocost {
namespace {

constexpr std::string_view kEncoderColour = "#2f8f6f";
constexpr std::string_view kLlmColour = "#4d7fc0";
constexpr std::string_view kBlindColour = "#c9803a";
constexpr double kWidth = 480;
constexpr double kHeight = 240;
constexpr double kLeft = 56;
constexpr double kBottom = 36;

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Data profile</title><style>
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1040px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { font-size: 1.1em; margin: 1.6em 0 .4em }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 1em 0 }
.tile { background: #f3f5f7; border-radius: 6px; padding: 10px 16px; min-width: 150px }
.tile b { display: block; font-size: 1.5em } .tile span, p, figcaption { color: #555 }
.plots { display: flex; flex-wrap: wrap; gap: 24px } figure { margin: 0 }
figcaption { font-size: .9em; max-width: 480px }
table { border-collapse: collapse; width: 100% } td, th { text-align: right; padding: 3px 8px; border-bottom: 1px solid #e4e7ea }
td:first-child, th:first-child, .text { text-align: left } .text { overflow-wrap: anywhere }
svg text { font: 11px system-ui, sans-serif; fill: #555 }
</style></head><body>
)";

std::string number(double value, const char* format = "%.1f") {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Short, for people: "1.2k", "340", "0.012".
std::string shown(double value) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [unit, name] : kUnits) {
    if (value >= unit) return number(value / unit, value / unit < 10 ? "%.1f" : "%.0f") + name;
  }
  return number(value, value >= 10 || value == 0 ? "%.0f" : "%.3g");
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
                const std::string& title, double opacity = 1) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) +
         "\" height=\"" + number(height) + "\" fill=\"" + std::string(colour) +
         "\" fill-opacity=\"" + number(opacity, "%.2f") + "\"><title>" + escaped(title) +
         "</title></rect>";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view colour = "#999") {
  return "<path d=\"M" + number(x1) + " " + number(y1) + " L" + number(x2) + " " + number(y2) +
         "\" stroke=\"" + std::string(colour) + "\" fill=\"none\"/>";
}

std::string figure(const std::string& drawing, const std::string& caption) {
  return "<figure><svg width=\"" + number(kWidth, "%.0f") + "\" height=\"" +
         number(kHeight, "%.0f") + "\" role=\"img\" aria-label=\"" + escaped(caption) + "\">" +
         drawing + "</svg><figcaption>" + escaped(caption) + "</figcaption></figure>\n";
}

// Powers of two; zero has a bin of its own in front.
class LogBins {
 public:
  explicit LogBins(const std::vector<double>& values) {
    double least = 0;
    double most = 1;
    for (const double value : values) {
      if (value <= 0) {
        zero_ = true;
        continue;
      }
      least = least == 0 ? value : std::min(least, value);
      most = std::max(most, value);
    }
    first_ = least > 0 ? static_cast<int>(std::floor(std::log2(least))) : 0;
    last_ = std::max(first_, static_cast<int>(std::floor(std::log2(most))));
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
    return shown(std::exp2(first_ + static_cast<int>(bin) - (zero_ ? 1 : 0)));
  }
  std::string range(std::size_t bin) const {
    if (zero_ && bin == 0) return "0";
    return label(bin) + " to " +
           shown(std::exp2(first_ + 1 + static_cast<int>(bin) - (zero_ ? 1 : 0)));
  }
  // Not more labels than fit.
  std::size_t label_step(std::size_t room) const { return size() / (room + 1) + 1; }

 private:
  int first_ = 0;
  int last_ = 0;
  bool zero_ = false;
};

std::string histogram(const std::vector<double>& values, std::string_view colour,
                      const std::string& caption) {
  const LogBins bins(values);
  std::vector<std::size_t> counts(bins.size());
  for (const double value : values) ++counts[bins.of(value)];
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  const double step = (kWidth - kLeft - 10) / static_cast<double>(bins.size());
  const double floor = kHeight - kBottom;
  std::string out = line(kLeft, floor, kWidth - 10, floor);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double x = kLeft + step * static_cast<double>(i);
    const double height = (floor - 20) * static_cast<double>(counts[i]) / most;
    out += box(x + 1, floor - height, step - 2, height, colour,
               bins.range(i) + ": " + std::to_string(counts[i]) + " samples");
    if (i % bins.label_step(12) == 0)
      out += text_at(x + step / 2, floor + 14, "middle", bins.label(i));
  }
  out += text_at(kLeft - 6, 24, "end", shown(most)) + text_at(kLeft - 6, floor, "end", "0");
  out += text_at((kLeft + kWidth) / 2, kHeight - 6, "middle", "each bar up to twice as much");
  return figure(out, caption);
}

double encoder_units(const ProfiledSample& sample) {
  return static_cast<double>(sample.load[Module::kVision].units +
                             sample.load[Module::kAudio].units);
}

double llm_units(const ProfiledSample& sample) {
  return static_cast<double>(sample.load[Module::kLlm].units);
}

std::vector<double> values_of(const DataProfile& profile, double (*of)(const ProfiledSample&)) {
  std::vector<double> values(profile.samples.size());
  std::transform(profile.samples.begin(), profile.samples.end(), values.begin(), of);
  return values;
}

std::string joint(const DataProfile& profile) {
  const std::vector<double> encoder = values_of(profile, encoder_units);
  const std::vector<double> llm = values_of(profile, llm_units);
  const LogBins columns(encoder);
  const LogBins rows(llm);
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> counts;
  std::size_t most = 0;
  for (std::size_t i = 0; i < llm.size(); ++i) {
    most = std::max(most, ++counts[{columns.of(encoder[i]), rows.of(llm[i])}]);
  }
  const double width = (kWidth - kLeft - 10) / static_cast<double>(columns.size());
  const double height = (kHeight - kBottom - 10) / static_cast<double>(rows.size());
  const double floor = kHeight - kBottom;
  std::string out;
  for (const auto& [cell, count] : counts) {
    const double shade = 0.12 + 0.88 * std::log1p(static_cast<double>(count)) /
                                    std::log1p(static_cast<double>(most));
    out += box(kLeft + width * static_cast<double>(cell.first),
               floor - height * static_cast<double>(cell.second + 1), width - 1, height - 1,
               kLlmColour,
               columns.range(cell.first) + " encoder units, " + rows.range(cell.second) +
                   " LLM tokens: " + std::to_string(count) + " samples",
               shade);
  }
  for (std::size_t i = 0; i < columns.size(); i += columns.label_step(12)) {
    out += text_at(kLeft + width * (static_cast<double>(i) + 0.5), floor + 14, "middle",
                   columns.label(i));
  }
  for (std::size_t i = 0; i < rows.size(); i += rows.label_step(10)) {
    out +=
        text_at(kLeft - 6, floor - height * (static_cast<double>(i) + 0.3), "end", rows.label(i));
  }
  out += text_at((kLeft + kWidth) / 2, kHeight - 6, "middle", "encoder units; upwards LLM tokens");
  return figure(out,
                "Encoder and LLM load together: the darker, the more samples. Correlation of "
                "seconds " +
                    number(profile.correlation, "%.2f") + " (of ranks " +
                    number(profile.rank_correlation, "%.2f") + ")");
}

std::string concentration(const DataProfile& profile) {
  std::vector<double> seconds =
      values_of(profile, [](const ProfiledSample& sample) { return sample.total_s(); });
  std::sort(seconds.begin(), seconds.end(), std::greater<>());
  double sum = 0;
  for (const double s : seconds) sum += s;
  const double floor = kHeight - kBottom;
  const double width = kWidth - kLeft - 20;
  std::string path = "M" + number(kLeft) + " " + number(floor);
  double taken = 0;
  const std::size_t step = seconds.size() / 200 + 1;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    taken += sum > 0 ? seconds[i] / sum : 0;
    if (i % step != 0 && i + 1 != seconds.size()) continue;
    const double x =
        kLeft + width * static_cast<double>(i + 1) / static_cast<double>(seconds.size());
    path += " L" + number(x) + " " + number(floor - (floor - 10) * taken);
  }
  std::string out = line(kLeft, floor, kLeft + width, floor) + line(kLeft, floor, kLeft, 10) +
                    line(kLeft, floor, kLeft + width, 10, "#ddd");
  out += "<path d=\"" + path + "\" stroke=\"" + std::string(kBlindColour) +
         "\" stroke-width=\"2\" fill=\"none\"/>";
  for (int percent = 0; percent <= 100; percent += 25) {
    const std::string label = std::to_string(percent) + " %";
    out += text_at(kLeft + width * percent / 100, floor + 14, "middle", label);
    out += text_at(kLeft - 6, floor - (floor - 10) * percent / 100 + 4, "end", label);
  }
  out += text_at((kLeft + kWidth) / 2, kHeight - 6, "middle", "samples, the dearest first");
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
  const double floor = kHeight - kBottom;
  const double step = (kWidth - kLeft - 10) / static_cast<double>(blind.size());
  const auto height = [&](double seconds) { return (floor - 30) * seconds / most; };
  std::string out = line(kLeft, floor, kWidth - 10, floor);
  for (std::size_t rank = 0; rank < blind.size(); ++rank) {
    const double x = kLeft + step * static_cast<double>(rank);
    const std::string name = "rank " + std::to_string(rank);
    out += box(x + step * 0.08, floor - height(blind[rank]), step * 0.4, height(blind[rank]),
               kBlindColour, name + ", in order: " + shown(blind[rank]) + " s");
    out += box(x + step * 0.52, floor - height(balanced[rank]), step * 0.4, height(balanced[rank]),
               kEncoderColour, name + ", balanced: " + shown(balanced[rank]) + " s");
    if (rank % (blind.size() / 16 + 1) == 0) {
      out += text_at(x + step / 2, floor + 14, "middle", std::to_string(rank));
    }
  }
  out += line(kLeft, floor - height(mean), kWidth - 10, floor - height(mean), "#444");
  out += text_at(kLeft - 6, floor - height(mean) + 4, "end", "mean");
  out += box(kLeft, 4, 10, 10, kBlindColour, "") + text_at(kLeft + 14, 13, "start", "in order");
  out +=
      box(kLeft + 80, 4, 10, 10, kEncoderColour, "") + text_at(kLeft + 94, 13, "start", "balanced");
  out += text_at((kLeft + kWidth) / 2, kHeight - 6, "middle", "ranks; upwards seconds a step");
  return figure(out, "One global batch of " + std::to_string(profile.options.global_batch) +
                         " samples, rank by rank: the highest bar is the step");
}

std::string tile(const std::string& value, const std::string& text) {
  return "<div class=\"tile\"><b>" + escaped(value) + "</b><span>" + escaped(text) +
         "</span></div>";
}

std::string tiles(const DataProfile& profile) {
  const CostSkew& skew = profile.skew;
  return "<div class=\"tiles\">" + tile(std::to_string(profile.dataset_size), "samples") +
         tile(std::to_string(profile.samples.size()), "profiled") +
         tile(number(skew.blind.microbatch_max_over_mean, "%.2f×"),
              "largest microbatch over mean") +
         tile(number(skew.blind.rank_max_over_mean, "%.2f×"), "slowest rank over mean") +
         tile(number(100 * skew.saved_share) + " %", "of step time saved by balancing") +
         "</div>\n";
}

std::string row(const std::vector<std::string>& cells, const char* tag = "td",
                std::size_t texts = 0) {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += std::string("<") + tag + (i < texts ? " class=\"text\">" : ">") + escaped(cells[i]) +
           "</" + tag + ">";
  }
  return out + "</tr>\n";
}

std::string distributions(const DataProfile& profile) {
  std::string out = "<h2>Of a sample</h2><table>" +
                    row({"", "mean", "median", "90 %", "99 %", "most", "deviation / mean"}, "th");
  for (const SampleQuantity& quantity : sample_quantities()) {
    const Distribution d = distribution_of(values_of(profile, quantity));
    if (d.most == 0) continue;
    out += row({std::string(quantity.text), shown(d.mean), shown(d.p50), shown(d.p90), shown(d.p99),
                shown(d.most), number(d.deviation / d.mean, "%.2f")});
  }
  return out + "</table>\n";
}

std::string modalities(const DataProfile& profile) {
  std::string out = "<h2>Media</h2><table>" + row({"", "samples", "share", "parts", "bytes"}, "th");
  for (std::size_t m = 0; m < profile.modalities.size(); ++m) {
    const ModalityCount& count = profile.modalities.at(m);
    if (count.parts == 0) continue;
    out += row({std::string(modality_name(static_cast<Modality>(m))), std::to_string(count.samples),
                number(100 * static_cast<double>(count.samples) /
                       static_cast<double>(profile.samples.size())) +
                    " %",
                std::to_string(count.parts), shown(static_cast<double>(count.encoded_bytes))});
  }
  return out + "</table>\n";
}

std::string heaviest(const DataProfile& profile) {
  double mean = 0;
  for (const ProfiledSample& sample : profile.samples) {
    mean += sample.total_s() / static_cast<double>(profile.samples.size());
  }
  std::string out =
      "<h2>Heaviest samples</h2><table>" +
      row({"shard", "key", "parts", "encoder units", "LLM tokens", "× mean"}, "th", 3);
  for (const HeavySample& heavy : profile.heaviest) {
    const Load& load = heavy.sample.load;
    out += row({heavy.shard, heavy.key, heavy.parts,
                std::to_string(load[Module::kVision].units + load[Module::kAudio].units),
                std::to_string(load[Module::kLlm].units),
                mean > 0 ? number(heavy.sample.total_s() / mean) : "1.0"},
               "td", 3);
  }
  return out + "</table>\n";
}

}  // namespace

std::string data_report_html(const DataProfile& profile) {
  const DataProfileOptions& options = profile.options;
  return std::string(kHead) + "<h1>Data profile</h1><p>" + escaped(profile.directory) +
         "; from the index, nothing decoded. Seconds by the profile: " +
         escaped(profile.profile_source) + ".</p>\n" + tiles(profile) +
         "<p>Skew and saving: " + std::to_string(options.batches) + " global batches of " +
         std::to_string(options.global_batch) + " samples, " + std::to_string(options.ranks) +
         " ranks × " + std::to_string(options.microbatches) +
         " microbatches, dealt in order and balanced.</p>\n<div class=\"plots\">" +
         histogram(values_of(profile, encoder_units), kEncoderColour,
                   "Encoder units (patches, audio positions) of a sample") +
         histogram(values_of(profile, llm_units), kLlmColour, "LLM tokens of a sample") +
         joint(profile) + concentration(profile) + example_batch(profile) + "</div>\n" +
         distributions(profile) + modalities(profile) + heaviest(profile) + "</body></html>\n";
}

}  // namespace isocost
