#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "cli/lab/emulate_arguments.h"
#include "cli/lab/emulated_pipeline.h"
#include "loader/metrics/snapshot.h"

namespace isocost::cli {

/// The emulated steps and the simulation of the same work. Seconds are means per step.
struct EmulationReport {
  double emulated_s = 0;
  double simulated_s = 0;
  double largest_step_error = 0;  ///< Relative error of a single step.
  std::size_t decoupled_steps = 0;
  std::size_t measured_steps = 0;
  /// Mean of the same steps without correction and measuring; 0: they were not run.
  double uncorrected_s = 0;
  std::vector<double> step_s;  ///< Emulated seconds of each step.

  double relative_error() const { return emulated_s / simulated_s - 1; }
  /// Returns the share of the step time that correction saves, less what measuring takes.
  double net_gain() const { return 1 - emulated_s / uncorrected_s; }
};

/// Simulates the work of every step. Errors: those of simulate.
Result<EmulationReport> compare_with_simulator(const EmulatedJob& job,
                                               const std::vector<EmulatedStep>& steps);

void print_emulation(const EmulateArguments& arguments, const EmulatedJob& job,
                     const EmulationReport& report, const NodeMetrics& node);

}  // namespace isocost::cli
