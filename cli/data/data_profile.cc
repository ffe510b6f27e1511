#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/output_file.h"
#include "base/statistics.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/number_range.h"
#include "cli/common/overwrite.h"
#include "cli/common/profiled_data.h"
#include "cli/common/savings_flags.h"
#include "cli/common/signal_stop.h"
#include "cli/data/data_commands.h"
#include "loader/report/data_profile.h"
#include "loader/report/data_report.h"
#include "loader/report/savings.h"

namespace isocost::cli {
namespace {

struct DataProfileArguments {
  DataWords data;
  ProfiledData profiled;
  std::string profile;
  std::string html;
  SavingsFlags savings;
  DataProfileOptions options;
  bool force = false;
  bool json = false;

  void add_to(CLI::App& command);
};

std::string correlation_text(const std::optional<double>& value) {
  if (!value) return "-";
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.2f", *value);
  return text.data();
}

void print_distributions(const DataProfile& profile) {
  std::printf("\n%-18s %12s %12s %12s %12s %12s\n", "per sample", "mean", "median", "90 %", "99 %",
              "largest");
  for (const SampleQuantity& quantity : sample_quantities()) {
    const Distribution d = distribution_of(values_of(profile, quantity));
    if (d.most == 0) continue;
    std::printf("%-18s %12.5g %12.5g %12.5g %12.5g %12.5g\n", std::string(quantity.text).c_str(),
                d.mean, d.p50, d.p90, d.p99, d.most);
  }
}

void print_modalities(const DataProfile& profile) {
  std::printf("\n%-10s %10s %8s %10s %12s\n", "media", "samples", "share", "parts", "MB");
  for (std::size_t m = 0; m < profile.modalities.size(); ++m) {
    const ModalityCount& count = profile.modalities.at(m);
    if (count.parts == 0) continue;
    std::printf(
        "%-10s %10llu %7.1f%% %10llu %12.1f\n",
        std::string(modality_name(static_cast<Modality>(m))).c_str(),
        static_cast<unsigned long long>(count.samples),
        100 * static_cast<double>(count.samples) / static_cast<double>(profile.samples.size()),
        static_cast<unsigned long long>(count.parts),
        static_cast<double>(count.encoded_bytes) / 1e6);
  }
}

void print_profiled_sources(const DataProfile& profile) {
  if (profile.sources.empty()) return;
  double all_tokens = 0;
  double all_seconds = 0;
  for (const ProfiledSource& source : profile.sources) {
    all_tokens += source.of_all(static_cast<double>(source.tokens));
    all_seconds += source.of_all(source.seconds);
  }
  const auto percent = [](double part, double all) { return all > 0 ? 100 * part / all : 0; };
  std::printf("\n%10s %10s %12s %12s %12s %9s %9s  %s\n", "samples", "profiled", "tokens mean",
              "labels mean", "seconds mean", "tokens %", "seconds %", "source");
  for (const ProfiledSource& source : profile.sources) {
    const auto count = static_cast<double>(std::max<std::uint64_t>(source.profiled, 1));
    const auto tokens = static_cast<double>(source.tokens);
    std::printf("%10llu %10llu %12.5g %12.5g %12.5g %9.1f %9.1f  %s\n",
                static_cast<unsigned long long>(source.size),
                static_cast<unsigned long long>(source.profiled), tokens / count,
                static_cast<double>(source.label_tokens) / count, source.seconds / count,
                percent(source.of_all(tokens), all_tokens),
                percent(source.of_all(source.seconds), all_seconds), source.name.c_str());
  }
}

void print_most_expensive(const DataProfile& profile) {
  double mean = 0;
  for (const ProfiledSample& sample : profile.samples) {
    mean += sample.total_s() / static_cast<double>(profile.samples.size());
  }
  std::printf(
      "\nthe most expensive 1 %% take %.1f %% of all seconds; the most expensive samples:\n",
      100 * profile.most_expensive_percent_share);
  for (const ExpensiveSample& expensive : profile.most_expensive) {
    std::printf("%8.1f x mean  %s/%s (%s)\n", mean > 0 ? expensive.sample.total_s() / mean : 1.0,
                expensive.shard.c_str(), expensive.key.c_str(), expensive.parts.c_str());
  }
}

void print_hours(const DataProfile& profile) {
  const std::optional<GpuHours> hours = profile.gpu_hours();
  if (!hours) {
    std::printf(
        "(the built-in model profile holds proportions only: give --gpu-hours or --profile for "
        "hours)\n");
  } else if (hours->of_run) {
    std::printf("of %.4g GPU-hours, tokens saves %.4g and cost %.4g\n",
                hours->of(BalancePolicy::kInOrder), hours->saved(BalancePolicy::kTokens),
                hours->saved(BalancePolicy::kCost));
  } else {
    std::printf("a pass over the data: %.4g GPU-hours in-order, %.4g tokens, %.4g cost\n",
                hours->of(BalancePolicy::kInOrder), hours->of(BalancePolicy::kTokens),
                hours->of(BalancePolicy::kCost));
  }
}

void print_skew(const DataProfile& profile) {
  const DataProfileOptions& options = profile.options;
  std::printf("\n%s of %s, %s x %s\n", counted(options.batches, "global batch").c_str(),
              counted(options.global_batch_size, "sample").c_str(),
              counted(options.ranks, "rank").c_str(),
              counted(options.microbatches, "microbatch").c_str());
  std::printf("%-14s %21s %18s %18s %16s\n", "(± deviation)", "microbatch max/mean",
              "rank max/mean", "step s", "saved %");
  for (std::size_t p = 0; p < kBalancePolicyNames.size(); ++p) {
    const CostSkew::Policy& policy = profile.skew.policies.at(p);
    std::printf("%-13s %11.3f ± %7.3f %10.3f ± %5.3f %10.4g ± %5.2g %8.1f ± %5.1f\n",
                std::string(kBalancePolicyNames.at(p)).c_str(), policy.microbatch_max_over_mean,
                policy.microbatch_max_over_mean_deviation, policy.rank_max_over_mean,
                policy.rank_max_over_mean_deviation, policy.step_s, policy.step_s_deviation,
                100 * policy.saved_share, 100 * policy.saved_share_deviation);
  }
  print_hours(profile);
}

void print_table(const DataProfile& profile) {
  std::printf("%s: %s, %llu bad; %zu profiled, %llu refused by the recipe; model profile %s\n",
              profile.directory.c_str(), counted(profile.dataset_size, "sample").c_str(),
              static_cast<unsigned long long>(profile.bad), profile.samples.size(),
              static_cast<unsigned long long>(profile.refused),
              profile.model_profile_source.c_str());
  if (profile.refused > 0) std::printf("first refused: %s\n", profile.refused_example.c_str());
  print_modalities(profile);
  print_distributions(profile);
  print_profiled_sources(profile);
  std::printf("\ncorrelation of encoder and LLM seconds: %s (of ranks %s)\n",
              correlation_text(profile.correlation).c_str(),
              correlation_text(profile.rank_correlation).c_str());
  print_most_expensive(profile);
  print_skew(profile);
  std::fputs(week_text(profile.savings()).c_str(), stdout);
  if (const auto needs = profile.loader_needs()) {
    std::fputs(needs_text(*needs).c_str(), stdout);
  } else if (const auto seconds = profile.options.loader_s_per_sample) {
    std::printf("a loader node takes %.3g ms of a core a sample (--profile for cores)\n",
                1e3 * *seconds);
  }
}

Result<int> data_profile(DataProfileArguments arguments) {
  ISOCOST_TRY(check_new_file("--html", arguments.html, arguments.force));
  const SignalStop signals;
  DataProfileOptions& options = arguments.options;
  options.stop = signals.token();
  if (!arguments.profile.empty()) {
    ISOCOST_ASSIGN(options.model_profile, as_usage_error(CostProfile::load(arguments.profile)));
  }
  ISOCOST_ASSIGN(options.price_per_gpu_hour, arguments.savings.price_per_gpu_hour());
  ISOCOST_ASSIGN(
      const DataProfile profile,
      arguments.profiled.profile(arguments.data, options, arguments.savings.measure_decoding));
  if (!arguments.html.empty()) {
    ISOCOST_TRY(replace_file(arguments.html, data_report_html(profile)));
  }
  if (arguments.json) {
    std::fputs(profile.to_json().c_str(), stdout);
  } else {
    print_table(profile);
  }
  return kDone;
}

void DataProfileArguments::add_to(CLI::App& command) {
  data.add_to(command);
  add_count(command, "--samples", options.samples, 0, 1'000'000'000,
            "Samples to profile, drawn at random; 0: all");
  command.add_option("--profile", profile, "Model profile; default: the built-in one")
      ->type_name("FILE");
  add_count(command, "--global-batch-size", options.global_batch_size, 1, 1'000'000,
            "Samples per optimizer step");
  add_count(command, "--ranks", options.ranks, 1, 100'000, "Data-parallel ranks");
  add_count(command, "--microbatches", options.microbatches, 1, 100'000,
            "Microbatches per rank and step");
  add_count(command, "--batches", options.batches, 1, 100'000,
            "Global batches over which skew is computed");
  command.add_option("--gpu-hours", options.gpu_hours,
                     "GPU-hours of a run without balancing, to report the hours saved; 0: unknown");
  add_count(command, "--gpus", options.gpus, 0, 1'000'000,
            "GPUs of the job, to say what balancing saves a week; 0: one for each rank");
  savings.add_to(command);
  add_count(command, "--most-expensive", options.most_expensive, 0, 100'000,
            "Samples to list, the most expensive first");
  add_count(command, "--seed", options.seed, 0, std::int64_t{1} << 53,
            "Seed of the samples and batches drawn");
  profiled.add_to(command);
  command.add_option("--html", html, "Write an HTML report with plots")->type_name("FILE");
  add_force(command, force);
  command.add_flag("--json", json,
                   "Print JSON, which --data-profile of 'isocost plan' and of isocost-lab reads");
}

constexpr const char* kDataProfileFooter =
    "Nothing is decoded. The recipe's flags are those of 'isocost serve'.\n"
    "Examples:\n"
    "  isocost data profile data/shards --html report.html\n"
    "  isocost data profile data/shards --ranks 64 --global-batch-size 1024 --gpu-hours 5000\n"
    "  isocost data profile data/shards --gpus 64 --price-per-gpu-hour 2.5 --html week.html\n"
    "  isocost data profile data/shards --json > data.json\n"
    "  isocost plan --data-profile data.json --gpus 64\n"
    "docs/data_profile.md explains the figures.";

}  // namespace

void add_data_profile(CLI::App& data, Run& run) {
  add_command<DataProfileArguments>(
      data, run,
      {.name = "profile",
       .description = "Predict the cost of a data set from its index alone.",
       .footer = kDataProfileFooter},
      data_profile);
}

}  // namespace isocost::cli
