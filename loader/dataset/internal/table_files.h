#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "decode/probe.h"
#include "loader/dataset/internal/shard_table.h"

namespace isocost {

/// The files that keep the tables of data sets, in a folder of the directory of indexes: one for
/// each choice of options and shards, so that jobs with other options do not replace one file by
/// turns. Single-thread; several processes may use one directory.
class TableFiles {
 public:
  /// Size in bytes beyond which the oldest files of a directory are removed.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

  /// `directories` may hold the files, preferred first.
  TableFiles(std::vector<std::filesystem::path> directories, TableIdentity identity, LogSink log);

  /// Returns the table of these options and shards; else the last one of these options, many of
  /// whose shards may be the same; nothing if there is none. A file that cannot be read, is broken
  /// or of another version is logged and passed over. Rows get these limits.
  std::optional<ShardTable> read(const ProbeLimits& limits) const;
  /// Replaces the table of these options and shards, and removes the oldest others if all are
  /// larger than `most_bytes`. If it cannot be written, that is logged.
  void write(std::span<const std::byte> table, std::uint64_t most_bytes = kMostBytes) const;
  /// Removes the tables of other options and shards, and logs how much that was.
  void prune() const;

 private:
  std::filesystem::path file_in(const std::filesystem::path& directory) const;
  std::optional<ShardTable> read(const std::filesystem::path& file,
                                 const ProbeLimits& limits) const;

  const std::vector<std::filesystem::path> directories_;
  const TableIdentity identity_;
  const LogSink log_;
};

}  // namespace isocost
