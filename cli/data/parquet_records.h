#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/result.h"

namespace isocost::cli {

struct ParquetOptions {
  std::filesystem::path directory;  ///< For the records; made if missing.
  int workers = 1;                  ///< Processes that convert row groups.
  std::vector<std::string> ignored_columns;
  ProgressSink progress;
  std::stop_token stop;
};

/// Returns the Parquet files that the sources are, a directory of them in the order of their names;
/// empty if none is one. Errors: kInvalidArgument if some are and others are not; kIo.
Result<std::vector<std::filesystem::path>> parquet_files(
    const std::vector<std::filesystem::path>& sources);

/// Returns the deepest directory that holds all of these files, from which their paths of media
/// start.
std::filesystem::path directory_of_all(const std::vector<std::filesystem::path>& files);

/// The rows of Parquet files as one file of JSON records, a line each, which Python's pyarrow reads
/// (isocost/parquet). What is converted stays in the directory until `remove`, also after an error,
/// so that the next call goes on there.
class ParquetRecords {
 public:
  /// Converts what is not converted yet. Blocks until it is done. Errors: kInvalidArgument for a
  /// column that is not read, with what to do; kCorrupt, kCancelled, kIo.
  static Result<ParquetRecords> convert(const std::vector<std::filesystem::path>& files,
                                        const ParquetOptions& options);

  std::filesystem::path file() const;
  /// Returns the text with places in the file of records as rows of the Parquet files:
  /// "a.parquet, row 17".
  std::string with_rows(const std::string& text) const;
  /// Removes the records.
  void remove() const;

 private:
  struct Rows {
    std::string file;
    std::uint64_t count = 0;
  };

  explicit ParquetRecords(std::filesystem::path directory) : directory_(std::move(directory)) {}
  Status read_rows(const std::vector<std::filesystem::path>& files);
  std::string row(std::uint64_t line) const;

  std::filesystem::path directory_;
  std::vector<Rows> rows_;
};

}  // namespace isocost::cli
