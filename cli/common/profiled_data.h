#pragma once

#include <CLI/CLI.hpp>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "cli/common/dataset_flags.h"
#include "loader/config/given_settings.h"
#include "loader/node/node_options.h"
#include "loader/report/data_profile.h"

namespace isocost::cli {

/// Flags that say how a data set is read, and what its samples are for a model, to profile it.
struct ProfiledData {
  std::string index_dir;
  ReadingOptions reading;
  GivenSettings recipe;
  bool verbose = false;

  /// Adds --index-dir, those of reading, --model with the recipe's, and --verbose.
  void add_to(CLI::App& command);
  /// Opens the data set, indexing it where it has no index, and profiles it, with progress bars.
  /// `options` says how; its recipe and its progress are set here. With `measure_decoding`, serves
  /// the data for some seconds afterwards, to measure a loader's CPU seconds for a sample. Errors:
  /// those of DataWords::sources and the settings as usage errors, Dataset::open,
  /// make_data_profile and measure_loader.
  Result<DataProfile> profile(const DataWords& data, DataProfileOptions options,
                              bool measure_decoding = false) const;

 private:
  Result<NodeOptions> node_options(const DataWords& data) const;
};

}  // namespace isocost::cli
