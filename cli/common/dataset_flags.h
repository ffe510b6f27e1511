#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/dataset/data_source.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/formats/sample_reading.h"

namespace isocost::cli {

/// The data that a command reads, which a shell may have expanded to several words.
struct DataWords {
  std::vector<std::string> words;

  void add_to(CLI::App& command);
  /// Returns the data text. Errors: those of join_data.
  Result<std::string> text() const;
  /// Returns the sources that the words name. Errors: those of join_data and read_data.
  Result<DataSources> sources(const ReadingOptions& reading) const;
};

/// Adds --ignore-parts and --weight-key to a command.
void add_reading(CLI::App& command, ReadingOptions& reading);

/// Adds --index-dir, --ignore-parts, --weight-key and the options that say how records in place are
/// read, what a directory is, and where texts stand.
void add_index_and_reading(CLI::App& command, std::string& index_dir, ReadingOptions& reading);

/// Flags of the commands that read a whole data set: `index` and `check`.
struct DatasetFlags {
  DataWords data;
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
