#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/result.h"
#include "loader/dataset/index/guarded_mapping.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/stores/file_stamp.h"

namespace isocost {

/// An index, mapped from its file, or held in memory if it could not be written. Immutable.
class ShardIndex {
 public:
  /// Maps an index from its file. Errors: kNotFound, kIo, those of IndexView::parse.
  static Result<std::unique_ptr<ShardIndex>> map(const std::filesystem::path& path);
  /// Maps an index that this process has mapped before, with the stamp `checked`: if the file still
  /// has it, its contents are not checked again.
  static Result<std::unique_ptr<ShardIndex>> map_again(const std::filesystem::path& path,
                                                       const FileStamp& checked);
  /// Holds an index in memory. `kept_in` is the file with the same bytes; empty: there is none.
  static Result<std::unique_ptr<ShardIndex>> in_memory(std::vector<std::byte> bytes,
                                                       std::filesystem::path kept_in);
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;

  const IndexView& view() const { return view_; }
  /// Returns whether the index is in a file, where the next run finds it.
  bool kept() const { return !file_.empty(); }
  /// Returns whether the file has been cut: values of `view` since then may be wrong, but within
  /// its bounds. Asks the file system.
  bool damaged() const { return mapping_.damaged(); }
  const std::filesystem::path& file() const { return file_; }
  /// Returns the size and the time that the file had when it was mapped; zeros for an index that is
  /// held in memory.
  const FileStamp& stamp() const { return mapping_.stamp(); }
  /// Has the next run index the shard again, which remembers what this index knows of it; the index
  /// stays valid. Thread-safe.
  void make_stale() const;

 private:
  ShardIndex() = default;
  std::vector<std::byte> memory_;
  GuardedMapping mapping_;
  IndexView view_;
  std::filesystem::path file_;  // empty: in no file
};

}  // namespace isocost
