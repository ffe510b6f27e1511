#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "balancer/layout/layout_model.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/trace_csv.h"

namespace isocost::cli {

/// What commands that draw samples are told alike: from traces, or from a profiled data set.
struct TraceOptions {
  std::string traces;
  std::string weights;
  std::string data;
  std::string profile;

  /// Adds --trace and --data, of which one must be given, --weights and --profile.
  void add_to(CLI::App& command);
  Result<TraceMix> read() const;
  Result<JobModel> job() const { return of_given(JobModel::load(profile)); }
};

}  // namespace isocost::cli
