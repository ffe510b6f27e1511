#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/shard_file.h"
#include "loader/dataset/stores/stored_file.h"

namespace isocost {

/// Returns how many shards may be open at once: 256, or a quarter of the files that this process
/// may open, if that is less.
std::size_t default_max_open();

/// Keeps recently used shards open: at most `max_open` files, and at most `max_inflated_bytes` of
/// inflated ones. A source that still reads a shard keeps it open beyond that. Internally
/// synchronised; while one shard is opened, and inflated, nearly all others can be opened, too.
class ShardCache {
 public:
  explicit ShardCache(std::size_t max_open = default_max_open(),
                      std::int64_t max_inflated_bytes = std::int64_t{16} << 30);
  std::size_t max_open() const { return max_open_; }

  /// Returns the shard, which has the bytes that were indexed. Of a file size and times are
  /// compared at each call, the content when it is opened for the first time and when anything else
  /// about it has changed; of an object the content where its stamp is not the one that was
  /// indexed. Errors: those of open_shard; kUnavailable if it is not the one that was indexed.
  Result<std::shared_ptr<const ShardFile>> get(const StoredFile& file,
                                               const ShardIdentity& identity,
                                               const std::stop_token& stop = {})
      ISOCOST_EXCLUDES(mutex_);

  /// Opens the shard, and begins to read these ranges of a plain tar ahead: see ShardFile::fetch.
  /// Blocks like `get`; failures are left to it.
  std::shared_ptr<const ByteSource> fetch(const StoredFile& file, const ShardIdentity& identity,
                                          std::span<const ByteRange> ranges,
                                          const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);

 private:
  using Files = std::list<std::pair<std::string, std::shared_ptr<const ShardFile>>>;
  Result<std::shared_ptr<const ShardFile>> open_as_indexed(const StoredFile& place,
                                                           const ShardIdentity& identity,
                                                           const std::stop_token& stop)
      ISOCOST_EXCLUDES(mutex_);
  std::shared_ptr<const ShardFile> find(const std::string& name) ISOCOST_EXCLUDES(mutex_);
  Status compare(const StoredFile& stored, const ShardFile& file, const ShardIdentity& identity)
      ISOCOST_EXCLUDES(mutex_);
  void insert(const std::string& name, std::shared_ptr<const ShardFile> file)
      ISOCOST_EXCLUDES(mutex_);
  Files take(Files::iterator file) ISOCOST_REQUIRES(mutex_);

  const std::size_t max_open_;
  const std::int64_t max_inflated_bytes_;
  std::vector<Mutex> opening_;  // by hash of the name: the holder of one may open and inflate
  Mutex mutex_;
  Files files_ ISOCOST_GUARDED_BY(mutex_);  // the most recently used one is first
  std::unordered_map<std::string, Files::iterator> by_name_ ISOCOST_GUARDED_BY(mutex_);
  std::int64_t inflated_bytes_ ISOCOST_GUARDED_BY(mutex_) = 0;
  // Files whose content was compared, as they were then.
  std::unordered_map<std::string, FileState> compared_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
