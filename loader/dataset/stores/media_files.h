#pragma once

#include <cstddef>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/byte_source.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/file_stamp.h"
#include "loader/dataset/stores/shard_cache.h"

namespace isocost {

/// The files of media, each of which must be as it was when it was indexed. The most recently used
/// ones stay open: at most `max_open`, however many sources there are, since a source opens its
/// file again if it was closed meanwhile. A file that is being read stays open beyond that.
/// Internally synchronised; opening one file does not block access to others. Must outlive its
/// sources.
class MediaFiles {
 public:
  explicit MediaFiles(std::size_t max_open = default_max_open());

  /// Opens a file. Its size and modification time are compared whenever it is opened, here or in a
  /// read. Errors: kNotFound, kIo; kUnavailable if the file is not the one that was indexed.
  Result<std::unique_ptr<ByteSource>> open(const std::filesystem::path& path,
                                           const FileStamp& stamp) ISOCOST_EXCLUDES(mutex_);
  /// Asks the operating system to read a file's first bytes ahead; failures are left to `open`.
  static void read_ahead(const std::filesystem::path& path, std::int64_t bytes);

 private:
  class Source;
  using File = std::shared_ptr<const StampedFile>;
  using Files = std::list<std::pair<std::string, File>>;
  Result<File> get(const std::filesystem::path& path, const FileStamp& stamp)
      ISOCOST_EXCLUDES(mutex_);
  File find(const std::string& name, const FileStamp& stamp) ISOCOST_EXCLUDES(mutex_);
  void insert(const std::string& name, File file) ISOCOST_EXCLUDES(mutex_);

  const std::size_t max_open_;
  Mutex mutex_;
  Files files_ ISOCOST_GUARDED_BY(mutex_);  // the most recently used one is first
  std::unordered_map<std::string, Files::iterator> by_name_ ISOCOST_GUARDED_BY(mutex_);
};

/// Compares a file with what it was when it was indexed. Errors: kNotFound, kIo; kUnavailable if
/// its size or its modification time is another.
Status compare_stamp(const std::filesystem::path& path, const FileStamp& indexed);

}  // namespace isocost
