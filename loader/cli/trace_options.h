#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "balancer/layout_model.h"
#include "base/result.h"
#include "loader/cli/trace_csv.h"

namespace isocost::cli {

/// What commands that draw samples from traces are told alike.
struct TraceOptions {
  std::string traces;
  std::string weights;
  std::string profile;

  /// Adds --weights and --profile, and to `group` --trace, which it returns.
  CLI::Option* add_to(CLI::App& command, CLI::App& group);
  Result<TraceMix> read() const { return read_traces(traces, weights); }
  Result<JobModel> job() const { return JobModel::load(profile); }
};

}  // namespace isocost::cli
