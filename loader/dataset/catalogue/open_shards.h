#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "decode/probe.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_row.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

/// How the shards of a source are read.
struct SourceReading {
  std::string name;  ///< The source's name; empty: the only one.
  SampleReading reading;
  ProbeLimits limits;
};

/// A shard of which the start of a data set knows its row, and which is opened when a sample of it
/// is asked for.
struct KnownShard {
  ShardPlace place;
  std::shared_ptr<const SourceReading> source;
  ShardRow row;
  std::shared_ptr<const Shard> held = nullptr;  ///< Open all the time: its index is in no file.
};

/// Opens the indexes and tokens of shards when they are first asked for, and closes those that were
/// not used for longest, because a process may map only so many files (65,530 on Linux). An index
/// and its tokens are checked whole when this object opens them for the first time. Whoever holds
/// an open shard keeps it open. Internally synchronised: opening one shard does not block access to
/// others.
class OpenShards {
 public:
  /// Shards that are open at once. Each maps up to two files.
  static constexpr std::size_t kMostOpen = 16'384;

  explicit OpenShards(std::vector<KnownShard> shards, LogSink log = {},
                      std::size_t most_open = kMostOpen);

  std::size_t size() const { return shards_.size(); }
  const KnownShard& known(std::size_t shard) const { return shards_[shard]; }
  /// Returns the shard's name, in a mixture after that of its source.
  const std::string& name(std::size_t shard) const { return names_[shard]; }

  /// Returns an open shard, in the state that its row was made of. If another job has replaced the
  /// index, for example with other options, it is built again in memory. Blocks while files are
  /// read. Errors: kCorrupt with the file that was cut while it was in use, or earlier;
  /// kUnavailable if the shard or its tokens have another state than that of the row; kIo.
  Result<std::shared_ptr<const Shard>> open(std::size_t shard) const ISOCOST_EXCLUDES(mutex_);

 private:
  using Opened = std::shared_ptr<const Shard>;
  struct State {
    Opened open = nullptr;
    std::list<std::size_t>::iterator used = {};  // valid while it is open
    FileStamp checked_index = {};                // of the files that were checked whole
    FileStamp checked_tokens = {};
    std::shared_ptr<const Error> damage = nullptr;  // found when it was closed
  };

  Opened keep(std::size_t shard, const Opened& opened) const ISOCOST_EXCLUDES(mutex_);
  void note_damage(const Shard& closed, std::size_t shard) const ISOCOST_EXCLUDES(mutex_);

  const std::vector<KnownShard> shards_;
  std::vector<std::string> names_;
  const LogSink log_;
  const std::size_t most_open_;
  mutable Mutex mutex_;
  mutable std::vector<State> states_ ISOCOST_GUARDED_BY(mutex_);
  mutable std::list<std::size_t> used_ ISOCOST_GUARDED_BY(mutex_);  // the last used one is first
};

}  // namespace isocost
