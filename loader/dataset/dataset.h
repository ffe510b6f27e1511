#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/log.h"
#include "base/result.h"
#include "decode/probe.h"
#include "decode/sample_shape.h"

namespace isocost {

/// A sample's number in its dataset: 0 .. size-1, shards in the order of their names, samples in
/// the order of the shard. Depends on the dataset's bytes alone.
using SampleId = std::uint64_t;

/// A sample that cannot be used, and why.
struct BadSample {
  std::string shard;
  std::string key;
  std::string part;  ///< Empty where the sample as a whole is meant.
  std::string reason;
};

/// Told now and then while long work runs: done of total, in `unit`s.
using ProgressSink =
    std::function<void(std::uint64_t done, std::uint64_t total, std::string_view what)>;

struct DatasetOptions {
  ProbeLimits limits;
  std::filesystem::path
      index_dir;            ///< Where indexes are kept; empty: ".isocost" in the shards' directory.
  std::size_t workers = 0;  ///< Shards indexed at once; 0: one per core.
  ProgressSink progress;
  LogSink log;
};

/// A directory of WebDataset shards (*.tar, *.tar.gz, *.tgz; not recursive), opened through their
/// indexes, which are built in one pass over headers where they are missing or older than their
/// shard. Immutable once open; const-safe.
class Dataset {
 public:
  /// Errors: kNotFound (no directory, no shards), kIo. Broken shards and samples are no errors:
  /// they are `bad`.
  static Result<std::unique_ptr<Dataset>> open(const std::filesystem::path& directory,
                                               const DatasetOptions& options);
  virtual ~Dataset() = default;

  /// Samples that can be used: the bad ones found by indexing have no id.
  virtual std::uint64_t size() const = 0;
  virtual SampleShape shape(SampleId id) const = 0;
  virtual std::string_view key(SampleId id) const = 0;
  virtual std::string_view shard(SampleId id) const = 0;
  virtual std::string_view part_name(SampleId id, std::size_t part) const = 0;
  /// Reads one part's bytes in place. The source keeps the shard open while it lives.
  virtual Result<std::unique_ptr<ByteSource>> open_part(SampleId id, std::size_t part) const = 0;
  /// Asks the operating system to read the sample's bytes ahead.
  virtual void read_ahead(SampleId id) const = 0;

  virtual const std::vector<BadSample>& bad() const = 0;
  virtual std::size_t shards() const = 0;
  /// Shards whose index could not be written, or was of a shard that was read while it changed or
  /// failed: the next to open them indexes them again.
  virtual std::size_t indexes_not_kept() const = 0;
  /// Of shard names, sizes and samples: equal for equal datasets.
  virtual std::uint64_t fingerprint() const = 0;
};

}  // namespace isocost
