#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "balancer/layout/layout_model.h"
#include "base/result.h"
#include "cli/common/dataset_flags.h"
#include "cli/common/exit_status.h"
#include "cli/common/profiled_data.h"
#include "cli/trace/trace_csv.h"

namespace isocost::cli {

/// The flags of every command that draws samples: from traces, a data profile or a data set.
struct TraceOptions {
  std::string traces;
  std::string weights;
  std::string data_profile;
  DataWords data;
  ProfiledData profiled;
  std::uint64_t samples = DataProfileOptions{}.samples;
  std::string profile;

  /// Adds --weights, --profile, and --trace, --data-profile or --data, one of which is required,
  /// with the flags of a data set.
  void add_to(CLI::App& command);
  /// Reads the traces or the data profile, or profiles the data set. Encoder units of a trace are
  /// audio positions, in windows of 30 s, if the model profile prices audio and no vision; vision
  /// patches otherwise. Errors: those of read_traces, load_profiled_loads and CostProfile::load, as
  /// usage errors; those of ProfiledData::profile.
  /// `measure_decoding`: see ProfiledData::profile.
  Result<TraceMix> read(const std::stop_token& stop = {}, bool measure_decoding = false) const;
  /// Reads the model profile. Errors: those of JobModel::load, as usage errors; kInvalidArgument
  /// for several profiles.
  Result<JobModel> job() const;

 private:
  Result<TraceMix> read_data(const std::stop_token& stop, bool measure_decoding) const;
};

}  // namespace isocost::cli
