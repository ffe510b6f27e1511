#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/records/record_range.h"
#include "loader/dataset/records/sample_input.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// The plain file of records while its shards are indexed: it is opened, and inflated if it is
/// compressed, once for all of them. Internally synchronised.
class RecordsFile {
 public:
  explicit RecordsFile(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  /// Returns the open file. Blocks while it is inflated. Errors: kNotFound, kIo (also if it is cut
  /// off, damaged or followed by other bytes), kResourceExhausted, kCancelled.
  Result<std::shared_ptr<const ShardFile>> open(const std::stop_token& stop)
      ISOCOST_EXCLUDES(mutex_);
  /// Lets go of the file, which the next `open` opens again.
  void close() ISOCOST_EXCLUDES(mutex_);

 private:
  const std::filesystem::path path_;
  Mutex mutex_;
  std::shared_ptr<const ShardFile> file_ ISOCOST_GUARDED_BY(mutex_);
};

/// A shard that is no file of its own: some records of a file, or some samples of a directory.
struct RecordShard {
  std::shared_ptr<RecordsFile> file;  ///< Null for a directory.
  std::filesystem::path directory;    ///< The directory; empty for a file.
  RecordRange range;                  ///< The records in the file.
  std::vector<InputSample> samples;   ///< Those of the directory, while its index needs them.
  SampleInputOptions options;         ///< How records are read.
  std::uint64_t origin = 0;           ///< IndexIdentity::origin.

  ShardKind kind() const { return file ? ShardKind::kRecords : ShardKind::kDirectory; }
  const std::filesystem::path& path() const { return file ? file->path() : directory; }
  /// Lets go of what only indexing needs: the open file, and the list of samples.
  void let_go();
  /// Returns the directory at which relative paths of media start.
  std::filesystem::path media_root() const;
};

/// Returns the stamp of a shard's file; for a directory, that of none, since its origin tells its
/// files apart. Errors: kNotFound, kIo.
Result<FileStamp> stamp_of(const RecordShard& shard);

}  // namespace isocost
