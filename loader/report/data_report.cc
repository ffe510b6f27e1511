#include "loader/report/data_report.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/statistics.h"
#include "loader/report/html_page.h"
#include "loader/report/internal/report_plots.h"
#include "loader/report/internal/svg.h"

namespace isocost {
namespace {

using report::escaped;
using report::short_number;

std::string saved_text(const CostSkew::Policy& policy) {
  return fmt::format("{:.1f} ± {:.1f} %", 100 * policy.saved_share,
                     100 * policy.saved_share_deviation);
}

std::string tiles(const DataProfile& profile) {
  const CostSkew::Policy& cost = profile.skew[BalancePolicy::kCost];
  std::string out =
      "<div class=\"tiles\">" + html_tile(std::to_string(profile.dataset_size), "samples") +
      html_tile(std::to_string(profile.samples.size()), "profiled") +
      html_tile(std::to_string(profile.bad), "bad, found by indexing") +
      html_tile(std::to_string(profile.refused), "refused by the recipe") +
      html_tile(saved_text(cost), "of step time saved by policy cost (± deviation over batches)");
  if (const std::optional<GpuHours> hours = profile.gpu_hours()) {
    out += html_tile(
        fmt::format("{:.4g}", hours->saved(BalancePolicy::kCost)),
        fmt::format("GPU-hours saved, of {:.4g} for {}", hours->of(BalancePolicy::kInOrder),
                    hours->of_run ? "the run" : "a pass over the data"));
  }
  return out + "</div>\n";
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
  return html_row(cells);
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
      html_row({"policy", "microbatch max/mean", "… vision", "… audio", "… LLM", "rank max/mean",
                "step (seconds)", "saved"},
               "th");
  for (std::size_t p = 0; p < kBalancePolicyNames.size(); ++p) {
    out += skew_row(kBalancePolicyNames.at(p), profile.skew.policies.at(p));
  }
  return out + "</table><p>Saved: share of the step time of policy in-order. " +
         hours_text(profile) + "</p>\n";
}

std::string basis(const DataProfile& profile) {
  return std::string(
             "Predicted for ranks that each hold the whole model, and a job that trains all "
             "week. Idle: the time in which ranks wait for the slowest.") +
         (profile.loader_needs() ? ""
                                 : " What the loader needs follows from the step time, which a "
                                   "measured model profile (--profile) gives.");
}

std::string distributions(const DataProfile& profile) {
  std::string out =
      "<h2>Per sample</h2><table>" +
      html_row({"", "mean", "median", "90 %", "99 %", "maximum", "deviation / mean"}, "th");
  for (const SampleQuantity& quantity : sample_quantities()) {
    const Distribution d = distribution_of(values_of(profile, quantity));
    if (d.most == 0) continue;
    out += html_row({std::string(quantity.text), short_number(d.mean), short_number(d.p50),
                     short_number(d.p90), short_number(d.p99), short_number(d.most),
                     fmt::format("{:.2f}", d.deviation / d.mean)});
  }
  return out + "</table>\n";
}

std::string modalities(const DataProfile& profile) {
  std::string out =
      "<h2>Media</h2><table>" + html_row({"", "samples", "share", "parts", "bytes"}, "th");
  for (std::size_t m = 0; m < profile.modalities.size(); ++m) {
    const ModalityCount& count = profile.modalities.at(m);
    if (count.parts == 0) continue;
    out += html_row(
        {std::string(modality_name(static_cast<Modality>(m))), std::to_string(count.samples),
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
  std::string out = "<h2>Most expensive samples</h2><table>" +
                    html_row({"shard", "key", "parts", "vision patches", "audio positions",
                              "LLM tokens", "× mean"},
                             "th", 3);
  for (const ExpensiveSample& expensive : profile.most_expensive) {
    const Load& load = expensive.sample.load;
    out += html_row({expensive.shard, expensive.key, expensive.parts,
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
  return html_head("Data profile") + "<h1>Data profile</h1><p>" + escaped(profile.directory) +
         ". Computed from the index; nothing was decoded. Seconds are predicted by the model "
         "profile: " +
         escaped(profile.model_profile_source) + "." + refused + "</p>\n" + tiles(profile) +
         skew(profile) + savings_html(profile.savings(), profile.loader_needs(), basis(profile)) +
         "<div class=\"plots\">" + report::plots(profile) + "</div>\n" + distributions(profile) +
         modalities(profile) + most_expensive(profile) + html_end();
}

}  // namespace isocost
