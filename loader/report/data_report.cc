#include "loader/report/data_report.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/statistics.h"
#include "loader/report/internal/report_plots.h"
#include "loader/report/internal/report_svg.h"

namespace isocost {
namespace {

using report::escaped;
using report::number;
using report::shown;

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

std::string tile(const std::string& value, const std::string& text) {
  return "<div class=\"tile\"><b>" + escaped(value) + "</b><span>" + escaped(text) +
         "</span></div>";
}

std::string tiles(const DataProfile& profile) {
  const CostSkew& skew = profile.skew;
  std::string out =
      "<div class=\"tiles\">" + tile(std::to_string(profile.dataset_size), "samples") +
      tile(std::to_string(profile.samples.size()), "profiled") +
      tile(std::to_string(profile.bad), "bad, found by indexing") +
      tile(std::to_string(profile.refused), "refused by the recipe") +
      tile(number(100 * skew.saved_share) + " ± " + number(100 * skew.saved_share_deviation) + " %",
           "of step time saved by balancing (± deviation over batches)");
  if (const std::optional<GpuHours> hours = profile.gpu_hours()) {
    out += tile(number(hours->saved(), "%.4g"),
                "GPU-hours saved, of " + number(hours->blind, "%.4g") +
                    (hours->of_run ? " that the run takes" : " that a pass over the data takes"));
  }
  return out + "</div>\n";
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

std::string with_deviation(double value, double deviation) {
  return number(value, "%.3f") + " ± " + number(deviation, "%.3f");
}

std::string skew_row(const char* name, const CostSkew::Policy& policy) {
  std::vector<std::string> cells = {
      name,
      with_deviation(policy.microbatch_max_over_mean, policy.microbatch_max_over_mean_deviation)};
  for (const double ratio : policy.module_max_over_mean) {
    cells.push_back(ratio > 0 ? number(ratio, "%.3f") : "-");
  }
  cells.push_back(with_deviation(policy.rank_max_over_mean, policy.rank_max_over_mean_deviation));
  cells.push_back(number(policy.step_s, "%#.4g") + " ± " +
                  number(policy.step_s_deviation, "%#.2g"));
  return row(cells);
}

std::string hours_text(const DataProfile& profile) {
  const std::optional<GpuHours> hours = profile.gpu_hours();
  if (!hours) {
    return "GPU-hours: not known, since the default profile knows proportions only (--gpu-hours or "
           "--profile tells).";
  }
  return std::string("GPU-hours of ") + (hours->of_run ? "the run" : "a pass over the data") +
         ": " + number(hours->blind, "%.4g") + " in order, " + number(hours->balanced, "%.4g") +
         " balanced, " + number(hours->saved(), "%.4g") + " saved.";
}

std::string skew(const DataProfile& profile) {
  const DataProfileOptions& options = profile.options;
  return "<h2>Skew and saving</h2><p>Means ± deviation over " + std::to_string(options.batches) +
         " global batches of " + std::to_string(options.global_batch_size) + " samples, " +
         std::to_string(options.ranks) + " ranks × " + std::to_string(options.microbatches) +
         " microbatches, dealt in order and balanced.</p><table>" +
         row({"", "microbatch max/mean", "… vision", "… audio", "… LLM", "rank max/mean",
              "step (seconds)"},
             "th") +
         skew_row("in order", profile.skew.blind) + skew_row("balanced", profile.skew.balanced) +
         "</table><p>Balancing saves " + number(100 * profile.skew.saved_share) +
         " % of step time (deviation " + number(100 * profile.skew.saved_share_deviation) + "). " +
         hours_text(profile) + "</p>\n";
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
      row({"shard", "key", "parts", "patches", "audio positions", "LLM tokens", "× mean"}, "th", 3);
  for (const HeavySample& heavy : profile.heaviest) {
    const Load& load = heavy.sample.load;
    out +=
        row({heavy.shard, heavy.key, heavy.parts, std::to_string(load[Module::kVision].units),
             std::to_string(load[Module::kAudio].units), std::to_string(load[Module::kLlm].units),
             mean > 0 ? number(heavy.sample.total_s() / mean) : "1.0"},
            "td", 3);
  }
  return out + "</table>\n";
}

}  // namespace

std::string data_report_html(const DataProfile& profile) {
  const std::string refused =
      profile.refused == 0 ? "" : " First refused: " + escaped(profile.refused_example) + ".";
  return std::string(kHead) + "<h1>Data profile</h1><p>" + escaped(profile.directory) +
         "; from the index, nothing decoded. Seconds by the profile: " +
         escaped(profile.profile_source) + "." + refused + "</p>\n" + tiles(profile) +
         skew(profile) + "<div class=\"plots\">" + report::plots(profile) + "</div>\n" +
         distributions(profile) + modalities(profile) + heaviest(profile) + "</body></html>\n";
}

}  // namespace isocost
