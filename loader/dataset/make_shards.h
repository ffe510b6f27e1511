#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/units.h"
#include "decode/probe.h"
#include "loader/dataset/dataset.h"

namespace isocost {

struct MakeShardsOptions {
  std::string name = "shard";             ///< Shards are NAME-000000.tar, NAME-000001.tar, ...
  std::int64_t samples_per_shard = 1000;  ///< Upper limit; >= 1.
  /// A shard ends before the sample that would exceed this, unless it is the shard's only sample.
  std::int64_t bytes_per_shard = kGiB;
  bool gzip = false;      ///< .tar.gz: smaller, but a reader inflates it into a temporary file.
  bool force = false;     ///< Replace existing shards of the same name.
  bool skip_bad = false;  ///< List bad samples and go on; else the first is an error.
  ProbeLimits limits;
  std::stop_token stop;
  ProgressSink progress;
  LogSink log;

  /// Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

struct MadeShards {
  std::uint64_t shards = 0;
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;     ///< Bytes of the parts, without tar headers or compression.
  std::vector<BadSample> bad;  ///< `shard` is the manifest with its line, or the directory.
};

/// Writes WebDataset shards into the directory `output`, which is made if missing. `source` is
///
/// - a manifest of JSON lines, {"key": "a/b", "parts": [{"name": "jpg", "file": "x.jpg"}, {"name":
///   "txt", "text": "..."}, {"name": "json", "json": {...}}]}: parts in the order in which a model
///   sees them, files relative to the manifest; or
/// - a directory, whose files are grouped by their path up to the first dot of the base name, keys
///   and parts sorted; hidden files are left out.
///
/// Equal input gives equal bytes. Every part is probed as training would. On failure, the shards
/// and directories that this call made are removed. Blocks until it is done; one call at a time
/// per directory. Errors: kNotFound (no source), kAlreadyExists (shards in `output` without
/// `force`), kCorrupt and kUnsupported (a bad sample or manifest line, named with its position),
/// kInvalidArgument, kCancelled, kIo.
Result<MadeShards> make_shards(const std::filesystem::path& source,
                               const std::filesystem::path& output,
                               const MakeShardsOptions& options);

}  // namespace isocost
