#include "loader/report/data_report.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/statistics.h"
#include "loader/report/internal/report_plots.h"
#include "loader/report/internal/svg.h"

namespace isocost {
namespace {

using report::escaped;
using report::short_number;

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
</style></head><body>
)";

std::string tile(const std::string& value, const std::string& text) {
  return "<div class=\"tile\"><b>" + escaped(value) + "</b><span>" + escaped(text) +
         "</span></div>";
}

std::string saved_text(const CostSkew::Policy& policy) {
  return fmt::format("{:.1f} ± {:.1f} %", 100 * policy.saved_share,
                     100 * policy.saved_share_deviation);
}

std::string tiles(const DataProfile& profile) {
  const CostSkew::Policy& cost = profile.skew[BalancePolicy::kCost];
  std::string out =
      "<div class=\"tiles\">" + tile(std::to_string(profile.dataset_size), "samples") +
      tile(std::to_string(profile.samples.size()), "profiled") +
      tile(std::to_string(profile.bad), "bad, found by indexing") +
      tile(std::to_string(profile.refused), "refused by the recipe") +
      tile(saved_text(cost), "of step time saved by policy cost (± deviation over batches)");
  if (const std::optional<GpuHours> hours = profile.gpu_hours()) {
    out += tile(fmt::format("{:.4g}", hours->saved(BalancePolicy::kCost)),
                fmt::format("GPU-hours saved, of {:.4g} for {}", hours->of(BalancePolicy::kInOrder),
                            hours->of_run ? "the run" : "a pass over the data"));
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
  return fmt::format("{:.3f} ± {:.3f}", value, deviation);
}

std::string skew_row(std::string_view name, const CostSkew::Policy& policy) {
  std::vector<std::string> cells = {
      std::string(name),
      with_deviation(policy.microbatch_max_over_mean, policy.microbatch_max_over_mean_deviation)};
  for (const double ratio : policy.module_max_over_mean) {
    cells.push_back(ratio > 0 ? fmt::format("{:.3f}", ratio) : "-");
  }
  cells.push_back(with_deviation(policy.rank_max_over_mean, policy.rank_max_over_mean_deviation));
  cells.push_back(fmt::format("{:#.4g} ± {:#.2g}", policy.step_s, policy.step_s_deviation));
  cells.push_back(saved_text(policy));
  return row(cells);
}

std::string hours_text(const DataProfile& profile) {
  const std::optional<GpuHours> hours = profile.gpu_hours();
  if (!hours) {
    return "GPU-hours are not known because the built-in model profile gives proportions only. Set "
           "gpu_hours, or give a measured model profile.";
  }
  return fmt::format("GPU-hours of {}: {:.4g} in-order, {:.4g} tokens, {:.4g} cost.",
                     hours->of_run ? "the run" : "a pass over the data",
                     hours->of(BalancePolicy::kInOrder), hours->of(BalancePolicy::kTokens),
                     hours->of(BalancePolicy::kCost));
}

std::string skew(const DataProfile& profile) {
  const DataProfileOptions& options = profile.options;
  std::string out =
      fmt::format(
          "<h2>Skew and saving</h2><p>Means ± deviation over {} of {} for {} × {}.</p><table>",
          counted(options.batches, "global batch"), counted(options.global_batch_size, "sample"),
          counted(options.ranks, "rank"), counted(options.microbatches, "microbatch")) +
      row({"policy", "microbatch max/mean", "… vision", "… audio", "… LLM", "rank max/mean",
           "step (seconds)", "saved"},
          "th");
  for (std::size_t p = 0; p < kBalancePolicyNames.size(); ++p) {
    out += skew_row(kBalancePolicyNames.at(p), profile.skew.policies.at(p));
  }
  return out + "</table><p>Saved: share of the step time of policy in-order. " +
         hours_text(profile) + "</p>\n";
}

std::string distributions(const DataProfile& profile) {
  std::string out =
      "<h2>Per sample</h2><table>" +
      row({"", "mean", "median", "90 %", "99 %", "maximum", "deviation / mean"}, "th");
  for (const SampleQuantity& quantity : sample_quantities()) {
    const Distribution d = distribution_of(values_of(profile, quantity));
    if (d.most == 0) continue;
    out += row({std::string(quantity.text), short_number(d.mean), short_number(d.p50),
                short_number(d.p90), short_number(d.p99), short_number(d.most),
                fmt::format("{:.2f}", d.deviation / d.mean)});
  }
  return out + "</table>\n";
}

std::string modalities(const DataProfile& profile) {
  std::string out = "<h2>Media</h2><table>" + row({"", "samples", "share", "parts", "bytes"}, "th");
  for (std::size_t m = 0; m < profile.modalities.size(); ++m) {
    const ModalityCount& count = profile.modalities.at(m);
    if (count.parts == 0) continue;
    out +=
        row({std::string(modality_name(static_cast<Modality>(m))), std::to_string(count.samples),
             fmt::format("{:.1f} %", 100 * static_cast<double>(count.samples) /
                                         static_cast<double>(profile.samples.size())),
             std::to_string(count.parts), short_number(static_cast<double>(count.encoded_bytes))});
  }
  return out + "</table>\n";
}

std::string most_expensive(const DataProfile& profile) {
  double mean = 0;
  for (const ProfiledSample& sample : profile.samples) {
    mean += sample.total_s() / static_cast<double>(profile.samples.size());
  }
  std::string out =
      "<h2>Most expensive samples</h2><table>" +
      row({"shard", "key", "parts", "vision patches", "audio positions", "LLM tokens", "× mean"},
          "th", 3);
  for (const ExpensiveSample& expensive : profile.most_expensive) {
    const Load& load = expensive.sample.load;
    out += row({expensive.shard, expensive.key, expensive.parts,
                std::to_string(load[CostModule::kVision].units),
                std::to_string(load[CostModule::kAudio].units),
                std::to_string(load[CostModule::kLlm].units),
                mean > 0 ? fmt::format("{:.1f}", expensive.sample.total_s() / mean) : "1.0"},
               "td", 3);
  }
  return out + "</table>\n";
}

}  // namespace

std::string data_report_html(const DataProfile& profile) {
  const std::string refused =
      profile.refused == 0 ? ""
                           : " The first refused sample: " + escaped(profile.refused_example) + ".";
  return std::string(kHead) + "<h1>Data profile</h1><p>" + escaped(profile.directory) +
         ". Computed from the index; nothing was decoded. Seconds are predicted by the model "
         "profile: " +
         escaped(profile.model_profile_source) + "." + refused + "</p>\n" + tiles(profile) +
         skew(profile) + "<div class=\"plots\">" + report::plots(profile) + "</div>\n" +
         distributions(profile) + modalities(profile) + most_expensive(profile) +
         "</body></html>\n";
}

}  // namespace isocost
