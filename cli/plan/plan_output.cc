#include "cli/plan/plan_output.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/counted.h"
#include "cli/common/gib.h"
#include "cli/common/json_output.h"
#include "cli/plan/plan_checkpoint.h"

namespace isocost::cli {
namespace {

// Returns the limit that layouts are checked against; "free" in the table is what they leave of it.
double usable_gib(const JobModel& job) {
  return LayoutSearchOptions{}.usable_memory * gib(job.cluster.gpu_memory);
}

std::size_t skipped(const LayoutSearchResult& found) {
  const std::size_t known = found.over_memory + found.over_bound + found.simulated;
  return found.enumerated - std::min(found.enumerated, known);
}

void print_score(const char* label, const LayoutScore& score, const JobModel& job) {
  std::printf("%-10s %9.4f %7.2f%% %9.1f  %s%s\n", label, score.step_s, 100 * score.idle_fraction,
              usable_gib(job) - gib(score.memory_bytes), score.layout.to_string().c_str(),
              score.fits ? "" : "  (does not fit the memory)");
}

// Prints a layout that the best one is compared with.
void print_compared(const char* label, const LayoutScore& score, const LayoutScore& best,
                    const JobModel& job) {
  print_score(label, score, job);
  std::printf("%11s%.3fx the best; %s\n", "", score.step_s / best.step_s,
              why_slower(best, score).c_str());
}

void print_savings(const PlanReport& report) {
  std::printf("\nsamples in layout 1, divided by\n%s%s", policies_text(report.savings).c_str(),
              week_text(report.savings).c_str());
  if (report.needs) std::fputs(needs_text(*report.needs).c_str(), stdout);
}

nlohmann::ordered_json optional_json(const std::optional<LayoutScore>& score) {
  return score ? score_json(*score) : nlohmann::ordered_json(nullptr);
}

}  // namespace

void print_plan_text(const PlanReport& report, const JobModel& job) {
  const LayoutSearchResult& found = report.found;
  std::printf(
      "%s: %zu over the usable memory (%.1f GiB per GPU), %zu over the bound, %zu simulated, %zu "
      "less promising skipped\n",
      counted(found.enumerated, "layout").c_str(), found.over_memory, usable_gib(job),
      found.over_bound, found.simulated, skipped(found));
  std::printf("%-10s %9s %8s %9s  %s\n", "", "step s", "idle", "free GiB",
              "layout (tensor x pipeline x data)");
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    print_score(std::to_string(i + 1).c_str(), found.best[i], job);
    if (i > 0) std::printf("%11s%s\n", "", why_slower(found.best[0], found.best[i]).c_str());
  }
  if (found.best.size() < report.wanted) {
    std::printf("%11sonly %s within the limits\n", "",
                counted(found.best.size(), "layout").c_str());
  }
  const bool all = runs_encoder_ranks(report.framework);
  if (found.alike && all) print_compared("alike", *found.alike, found.best[0], job);
  if (found.mean_shape) {
    print_compared("mean-shape", *found.mean_shape, found.best[0], job);
  } else if (all) {
    std::printf("mean-shape: the published rule finds no layout that fits\n");
  }
  print_savings(report);
  for (const auto& [name, score] : report.fresh) {
    std::printf("on fresh batches, %s: %.4f s\n", name.c_str(), score.step_s);
  }
}

void print_plan_json(const PlanReport& report, const JobModel& job) {
  const LayoutSearchResult& found = report.found;
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["enumerated"] = found.enumerated;
  json["over_memory"] = found.over_memory;
  json["usable_memory_gib"] = usable_gib(job);
  json["over_bound"] = found.over_bound;
  json["simulated_layouts"] = found.simulated;
  json["skipped_layouts"] = skipped(found);
  json["search_seconds"] = report.took.back().second;
  for (const auto& [what, seconds] : report.took) json["took"][what] = seconds;
  for (const LayoutScore& score : found.best) {
    nlohmann::ordered_json entry = score_json(score);
    entry["why_slower"] = why_slower(found.best[0], score);
    json["best"].push_back(std::move(entry));
  }
  json["alike"] = optional_json(found.alike);
  json["mean_shape"] = optional_json(found.mean_shape);
  for (const auto& [name, score] : report.fresh) json["fresh"][name] = score.step_s;
  json["savings"] = nlohmann::ordered_json::parse(savings_json(report.savings));
  json["loader"] = report.needs ? nlohmann::ordered_json::parse(needs_json(*report.needs))
                                : nlohmann::ordered_json(nullptr);
  print_json(json);
}

}  // namespace isocost::cli
