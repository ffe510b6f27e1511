#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/log.h"
#include "base/result.h"
#include "base/units.h"

namespace isocost {

class DiskCache;

struct ObjectCacheOptions {
  /// Made if it is absent, with mode 0700.
  std::filesystem::path directory = {};
  /// Bytes on the disk that all processes with this directory keep together. The default is what
  /// most local disks of training hosts have to spare, and holds a million pictures of 100 kB.
  std::int64_t max_bytes = 100 * kGiB;
  LogSink log = {};
};

/// Counts what a cache has done since it was opened.
struct CacheCounts {
  std::int64_t hits = 0;  ///< Reads answered from the disk.
  std::int64_t hit_bytes = 0;
  std::int64_t misses = 0;  ///< Reads for which a server was asked.
  std::int64_t kept_bytes = 0;
  std::int64_t damaged = 0;  ///< Ranges that were dropped, since their bytes had changed.
  std::int64_t evicted = 0;  ///< Entries that this process removed.
};

/// A directory on a local disk with ranges of objects, which all processes of a user on a host
/// share. Reads and writes run on threads of its own. A disk that refuses a write (full, read-only,
/// failing) turns it off with one warning: nothing is kept from then on, and what is there still
/// serves. Thread-safe.
class ObjectCache {
 public:
  /// Opens a cache, and makes its directory. Errors: kInvalidArgument for a directory that is
  /// another user's, lies on a network's file system, holds other files, or is a cache of another
  /// version, and for a size that is not positive, each with what to do; kIo (no permission).
  static Result<std::shared_ptr<ObjectCache>> open(const ObjectCacheOptions& options);
  ~ObjectCache();
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;

  /// Has reads be extended from now on to pieces of 16 MiB, for an order in which neighbours are
  /// read soon after each other. Otherwise the ranges that are asked for are kept, and no others.
  void keep_pieces();

  CacheCounts counts() const;
  /// The part that create_cached_store uses.
  DiskCache& disk() { return *disk_; }

 private:
  explicit ObjectCache(std::unique_ptr<DiskCache> disk);

  const std::unique_ptr<DiskCache> disk_;
};

}  // namespace isocost
