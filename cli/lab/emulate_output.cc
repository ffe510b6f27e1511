#include "cli/lab/emulate_output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "balancer/layout/place.h"
#include "balancer/pipeline/simulator.h"
#include "base/counted.h"
#include "cli/common/json_output.h"

namespace isocost::cli {
namespace {

nlohmann::ordered_json cost_model_json(const NodeMetrics& node, const EmulationReport& report) {
  nlohmann::ordered_json errors = nlohmann::ordered_json::object();
  for (std::size_t m = 0; m < kModules; ++m) {
    const double error = node.summary.prediction_error_ratio.at(m);
    if (std::isfinite(error)) errors[std::string(module_name(static_cast<CostModule>(m)))] = error;
  }
  nlohmann::ordered_json penalties = nlohmann::ordered_json::object();
  for (std::size_t m = 0; m < kModules; ++m) {
    penalties[std::string(module_name(static_cast<CostModule>(m)))] =
        node.correction.modules.at(m).penalty;
  }
  nlohmann::ordered_json json = {{"prediction_error_ratio", errors},
                                 {"correction_on", node.correction.on},
                                 {"gain", node.correction.gain},
                                 {"overhead", node.correction.overhead},
                                 {"measuring", node.correction.measuring},
                                 {"measuring_stride", node.correction.measuring_stride},
                                 {"measured_steps", report.measured_steps},
                                 {"penalties", penalties},
                                 {"drifts", node.correction.drifts},
                                 {"rank_slowdowns", node.correction.rank_slowdowns}};
  if (report.uncorrected_s > 0) {
    json["uncorrected_step_s"] = report.uncorrected_s;
    json["net_gain"] = report.net_gain();
  }
  return json;
}

void print_cost_model(const EmulateArguments& arguments, const EmulationReport& report,
                      const NodeMetrics& node) {
  std::printf("prediction      error");
  for (std::size_t m = 0; m < kModules; ++m) {
    const double error = node.summary.prediction_error_ratio.at(m);
    if (!std::isfinite(error)) continue;
    std::printf(" %.1f %% (%s)", 100 * error,
                std::string(module_name(static_cast<CostModule>(m))).c_str());
  }
  const CorrectionStatus& correction = node.correction;
  std::printf("\ncorrection      %s: gain %.2f %%, overhead %.3f %%; %s\n",
              correction.on ? "on" : "paused", 100 * correction.gain, 100 * correction.overhead,
              counted(correction.drifts, "drift").c_str());
  std::printf("measured        %zu of %s\n", report.measured_steps,
              counted(arguments.steps, "step").c_str());
  if (report.uncorrected_s > 0) {
    std::printf("net gain        %+.2f %% (%.4f s without correction and measuring)\n",
                100 * report.net_gain(), report.uncorrected_s);
  }
  const auto& slowdowns = correction.rank_slowdowns;
  if (slowdowns.empty()) return;
  const auto slowest = std::max_element(slowdowns.begin(), slowdowns.end());
  std::printf("rank slowdowns  %.3f to %.3f (rank %td)\n",
              *std::min_element(slowdowns.begin(), slowdowns.end()), *slowest,
              slowest - slowdowns.begin());
}

void print_report_json(const EmulateArguments& arguments, const EmulatedJob& job,
                       const EmulationReport& report, const NodeMetrics& node) {
  print_json({{"emulated", true},
              {"layout", job.layout.to_string()},
              {"trainers", receivers(job.layout)},
              {"global_batch_size", arguments.global_batch_size},
              {"balance", arguments.balance},
              {"steps", arguments.steps},
              {"decoupled_steps", report.decoupled_steps},
              {"warm_up_steps", job.warm_up},
              {"time_scale", job.time_scale},
              {"virtual_clock", job.virtual_clock},
              {"emulated_step_s", report.emulated_s},
              {"simulated_step_s", report.simulated_s},
              {"relative_error", report.relative_error()},
              {"largest_step_error", report.largest_step_error},
              {"delivered", node.summary.delivered},
              {"planning_seconds_mean", node.summary.plan_seconds_mean},
              {"correction", cost_model_json(node, report)},
              {"step_s", report.step_s}});
}

void print_report_text(const EmulateArguments& arguments, const EmulatedJob& job,
                       const EmulationReport& report, const NodeMetrics& node) {
  std::printf(
      "emulated: %s; %s as\n"
      "threads that %s instead of computing; node, sockets and plans are real. A modelled "
      "second\n"
      "took %.4f s. %s after %zu to warm up.\n",
      job.layout.to_string().c_str(), counted(receivers(job.layout), "stage").c_str(),
      job.virtual_clock ? "move virtual clocks on" : "wait", job.time_scale,
      counted(arguments.steps, "step").c_str(), job.warm_up);
  std::printf("emulated step   %.4f s\nsimulated step  %.4f s (%+.2f %%; worst step %.2f %%)\n",
              report.emulated_s, report.simulated_s, 100 * report.relative_error(),
              100 * report.largest_step_error);
  std::printf("planning        %.1f ms per step\n", 1e3 * node.summary.plan_seconds_mean);
  if (job.layout.encoder_place == EncoderPlacement::kOwnRanks) {
    std::printf("decoupled       %zu of %s\n", report.decoupled_steps,
                counted(arguments.steps, "step").c_str());
  }
  print_cost_model(arguments, report, node);
}

}  // namespace

Result<EmulationReport> compare_with_simulator(const EmulatedJob& job,
                                               const std::vector<EmulatedStep>& steps) {
  EmulationReport report;
  const auto n = static_cast<double>(steps.size());
  for (const EmulatedStep& step : steps) {
    ISOCOST_ASSIGN(const PipelineReport simulation, simulate(step.work));
    const double simulated_s = simulation.step_s * job.time_scale;
    report.emulated_s += step.seconds / n;
    report.simulated_s += simulated_s / n;
    report.largest_step_error =
        std::max(report.largest_step_error, std::abs(step.seconds / simulated_s - 1));
    if (!step.coupled) ++report.decoupled_steps;
    if (step.measured) ++report.measured_steps;
    report.step_s.push_back(step.seconds);
  }
  return report;
}

void print_emulation(const EmulateArguments& arguments, const EmulatedJob& job,
                     const EmulationReport& report, const NodeMetrics& node) {
  (arguments.json ? print_report_json : print_report_text)(arguments, job, report, node);
}

}  // namespace isocost::cli
