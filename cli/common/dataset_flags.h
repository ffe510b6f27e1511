#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "loader/dataset/dataset.h"
#include "loader/dataset/formats/sample_reading.h"

namespace isocost::cli {

/// Checks that a directory of shards is not a file. Errors: kInvalidArgument with the argument to
/// give instead.
Status check_shard_directory(const std::string& directory);

/// Adds --ignore-parts and --weight-key to a command.
void add_reading(CLI::App& command, ReadingOptions& reading);

/// Flags of the commands that read a whole data set: `index` and `check`.
struct DatasetFlags {
  std::string directory;
  std::string index_dir;
  ReadingOptions reading;
  std::int64_t workers = 0;
  std::int64_t max_decoded_pixels = ProbeLimits{}.max_pixels;
  bool json = false;
  bool verbose = false;

  void add_to(CLI::App& command);
  /// Returns the options of Dataset::open, with a progress bar and a log on standard error.
  DatasetOptions options() const;
};

}  // namespace isocost::cli
