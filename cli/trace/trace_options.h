#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "balancer/layout/layout_model.h"
#include "base/result.h"
#include "cli/common/exit_status.h"
#include "cli/trace/trace_csv.h"

namespace isocost::cli {

/// The flags of every command that draws samples: from traces, or from a data profile.
struct TraceOptions {
  std::string traces;
  std::string weights;
  std::string data_profile;
  std::string profile;

  /// Adds --weights, --profile, and --trace or --data-profile, one of which is required.
  void add_to(CLI::App& command);
  /// Reads the traces or the data profile. Encoder units of a trace are audio positions, in windows
  /// of 30 s, if the model profile prices audio and no vision; vision patches otherwise. Errors:
  /// those of read_traces, load_profiled_loads and CostProfile::load, as usage errors.
  Result<TraceMix> read() const;
  /// Reads the model profile. Errors: those of JobModel::load, as usage errors.
  Result<JobModel> job() const { return as_usage_error(JobModel::load(profile)); }
};

}  // namespace isocost::cli
