#include "cli/lab/simulate_output.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "balancer/pipeline/pipeline_plan.h"
#include "base/counted.h"
#include "base/output_file.h"
#include "cli/common/gib.h"
#include "cli/common/json_output.h"
#include "loader/report/pipeline_svg.h"

namespace isocost::cli {
namespace {

nlohmann::ordered_json to_json(const PolicyResult& result, double gpu_gib) {
  return {{"step_s", result.step_s},
          {"idle_fraction", result.idle_fraction},
          {"max_over_mean", result.microbatch_max_over_mean},
          {"rank_max_over_mean", result.rank_max_over_mean},
          {"bound_s", result.bound_s},
          {"over_bound", result.bound_s > 0 ? result.step_s / result.bound_s : 1.0},
          {"peak_activation_gib", result.peak_activation_gib},
          {"memory_gib", result.memory_gib},
          {"fits", result.fits},
          {"fits_gpu", result.memory_gib <= gpu_gib},
          {"plan_s", result.plan_s}};
}

void print_table(const std::vector<PolicyResult>& results) {
  std::printf("%-8s %10s %8s %8s %12s %10s %10s %10s\n", "policy", "step s", "speedup", "idle",
              "microbatch", "rank", "peak", "plan ms");
  std::printf("%-8s %10s %8s %8s %12s %10s %10s %10s\n", "", "", "", "fraction", "max/mean",
              "max/mean", "act. GiB", "(measured)");
  for (const PolicyResult& result : results) {
    std::printf("%-8s %10.4f %7.3fx %7.2f%% %12.3f %10.3f %10.1f %10.1f\n",
                std::string(policy_name(result.policy)).c_str(), result.step_s,
                results.front().step_s / result.step_s, 100 * result.idle_fraction,
                result.microbatch_max_over_mean, result.rank_max_over_mean,
                result.peak_activation_gib, 1e3 * result.plan_s);
  }
}

// Prints memory limits that are exceeded, which the table does not show.
void print_notes(const JobModel& job, const std::vector<PolicyResult>& results) {
  const double gpu_gib = gib(job.cluster.gpu_memory);
  for (const PolicyResult& result : results) {
    const std::string name(policy_name(result.policy));
    if (!result.fits) {
      std::printf("note: %s exceeds the cap on activations; no plan was found that keeps it\n",
                  name.c_str());
    }
    if (result.memory_gib > gpu_gib) {
      std::printf(
          "note: %s takes %.1f GiB of a GPU of %.1f GiB (state and activations): this job needs a "
          "larger tensor degree, or more and smaller microbatches\n",
          name.c_str(), result.memory_gib, gpu_gib);
    }
  }
}

}  // namespace

void print_simulation_text(const SimulateArguments& arguments, const Layout& layout,
                           const JobModel& job, const SimulatedPolicies& results) {
  std::printf("simulated: %s; %s per step, %s; model profile %s\n", layout.to_string().c_str(),
              counted(arguments.global_batch_size, "sample").c_str(),
              counted(arguments.steps, "step").c_str(), job.profile.source.c_str());
  std::printf("bound %.4f s per step (the busiest stage's work, evenly divided)\n",
              results.policies.front().bound_s);
  print_table(results.policies);
  if (arguments.decouple) {
    const DecoupledResult& decoupled = results.decoupled;
    std::printf("decoupled: %.4f s per step, %.3fx coupled; %zu of %s decoupled\n",
                decoupled.step_s, decoupled.coupled_s / decoupled.step_s, decoupled.decoupled_steps,
                counted(arguments.steps, "step").c_str());
  }
  print_notes(job, results.policies);
}

void print_simulation_json(const SimulateArguments& arguments, const Layout& layout,
                           const JobModel& job, const SimulatedPolicies& results) {
  const double gpu_gib = gib(job.cluster.gpu_memory);
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["profile"] = job.profile.source;
  json["layout"] = nlohmann::ordered_json::parse(layout.to_json());
  json["global_batch_size"] = arguments.global_batch_size;
  json["steps"] = arguments.steps;
  json["seed"] = arguments.seed;
  json["lookahead"] = arguments.lookahead;
  json["gpu_memory_gib"] = gpu_gib;
  for (const PolicyResult& result : results.policies) {
    json["policies"][std::string(policy_name(result.policy))] = to_json(result, gpu_gib);
  }
  if (arguments.decouple) {
    json["decoupled"] = {{"step_s", results.decoupled.step_s},
                         {"coupled_s", results.decoupled.coupled_s},
                         {"decoupled_steps", results.decoupled.decoupled_steps}};
  }
  print_json(json);
}

Status write_simulation_svg(const std::string& path, const std::vector<PolicyResult>& results) {
  if (path.empty()) return {};
  std::vector<PipelinePicture> pictures;
  for (const PolicyResult& result : results) {
    PipelinePicture& picture = pictures.emplace_back(result.picture);
    char title[128];
    std::snprintf(title, sizeof title, "%s: %.3f s, %.1f %% idle (first step, the slowest replica)",
                  std::string(policy_name(result.policy)).c_str(), picture.report.step_s,
                  100 * picture.report.idle_fraction);
    picture.title = title;
  }
  return replace_file(path, draw_pipelines(pictures));
}

}  // namespace isocost::cli
