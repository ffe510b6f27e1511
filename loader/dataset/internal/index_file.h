#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "decode/probe.h"
#include "loader/dataset/internal/index_format.h"
#include "loader/dataset/internal/shard_file.h"

namespace isocost {

/// An index, mapped from its file or, where none could be written, held in memory. Immutable.
class ShardIndex {
 public:
  /// Errors: kNotFound, kIo, those of IndexView::parse.
  static Result<std::unique_ptr<ShardIndex>> map(const std::filesystem::path& path);
  /// `kept`: the same bytes are in a file.
  static Result<std::unique_ptr<ShardIndex>> in_memory(std::vector<std::byte> bytes, bool kept);
  ~ShardIndex();
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;

  const IndexView& view() const { return view_; }
  /// Whether the next to open the shard finds its index in a file.
  bool kept() const { return kept_; }

 private:
  ShardIndex() = default;
  std::vector<std::byte> memory_;
  std::span<std::byte> mapped_;
  IndexView view_;
  bool kept_ = true;
};

/// Writes a file so that readers see all of it or nothing. Errors: kIo; nothing is left behind.
Status write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Where the indexes of a directory of shards may lie, best first: `index_dir` where it is given
/// (a folder in it for each directory of shards), else ".isocost" beside the shards and, where that
/// cannot be written, the user's cache.
std::vector<std::filesystem::path> index_directories(const std::filesystem::path& shards,
                                                     const std::filesystem::path& index_dir);

struct IndexRequest {
  std::filesystem::path shard;
  std::vector<std::filesystem::path> directories;
  ProbeLimits limits;
  LogSink log;
};

/// The shard's index: the first that is there and current, else built and written to the first
/// directory that takes it. Errors: kNotFound, kIo where the shard cannot be opened.
Result<std::unique_ptr<ShardIndex>> open_or_build_index(const IndexRequest& request);

}  // namespace isocost
