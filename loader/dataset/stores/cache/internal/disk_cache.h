#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_range.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/cache/internal/cache_entry.h"
#include "loader/dataset/stores/cache/internal/disk_threads.h"
#include "loader/dataset/stores/cache/internal/entry_format.h"
#include "loader/dataset/stores/cache/internal/piece_queue.h"
#include "loader/dataset/stores/cache/object_cache.h"

namespace isocost {

/// The entries of a cache, as one process uses them. Its reads and writes block, and are to be
/// called on its threads. Thread-safe.
class DiskCache {
 public:
  /// `problem`: why nothing can be kept, which is logged; empty: something can.
  DiskCache(ObjectCacheOptions options, const std::string& problem);

  void keep_pieces() { keeps_pieces_ = true; }
  /// Returns whether reads are to be extended to whole pieces: so it was asked, and they are kept.
  bool keeps_pieces() const ISOCOST_EXCLUDES(mutex_);
  DiskThreads& threads() { return threads_; }
  PieceQueue& pieces() { return pieces_; }
  CacheCounts counts() const;
  void count_miss() { ++misses_; }

  /// Returns whether another read may wait for the disk. `end_read` follows.
  bool begin_read();
  void end_read() { --reads_; }
  /// Returns whether so many more bytes may wait to be written. `end_write` follows.
  bool begin_write(std::int64_t bytes);
  void end_write(std::int64_t bytes) { waiting_bytes_ -= bytes; }

  /// Reads a range. Returns whether all of it is held, and good.
  bool read(const CachedObject& object, ByteRange range, std::string& bytes)
      ISOCOST_EXCLUDES(mutex_);
  /// Returns the parts of a range that are not held. What is held counts as used.
  std::vector<ByteRange> missing(const CachedObject& object, ByteRange range)
      ISOCOST_EXCLUDES(mutex_);
  /// Keeps a range, if there is room.
  void keep(const CachedObject& object, ByteRange range, std::string_view bytes)
      ISOCOST_EXCLUDES(mutex_);

 private:
  using Entry = std::shared_ptr<CacheEntry>;
  struct Opened {
    Entry entry;
    std::list<std::string>::iterator use;
  };

  Entry find(const CachedObject& object) ISOCOST_EXCLUDES(mutex_);
  Entry remember(const std::string& name, Entry entry) ISOCOST_EXCLUDES(mutex_);
  void forget(const std::string& name, const Entry& entry) ISOCOST_EXCLUDES(mutex_);
  Result<Entry> make(const CachedObject& object);
  bool make_room(std::int64_t bytes, const std::string& spared) ISOCOST_EXCLUDES(mutex_);
  void warn_of_damage(const std::string& what);
  void turn_off(const std::string& problem);

  const ObjectCacheOptions options_;
  const std::size_t most_open_;
  const std::int64_t look_after_;  // bytes written after which the directory is looked at
  std::atomic<bool> keeps_pieces_ = false;
  std::atomic<bool> is_off_ = false;
  std::atomic<bool> told_of_damage_ = false;
  std::atomic<std::int64_t> reads_ = 0;
  std::atomic<std::int64_t> waiting_bytes_ = 0;
  std::atomic<std::int64_t> hits_ = 0;
  std::atomic<std::int64_t> hit_bytes_ = 0;
  std::atomic<std::int64_t> misses_ = 0;
  std::atomic<std::int64_t> kept_bytes_ = 0;
  std::atomic<std::int64_t> damaged_ = 0;
  std::atomic<std::int64_t> evicted_ = 0;
  mutable Mutex mutex_;
  std::list<std::string> uses_ ISOCOST_GUARDED_BY(mutex_);  // the last used first
  std::map<std::string, Opened, std::less<>> opened_ ISOCOST_GUARDED_BY(mutex_);
  std::int64_t written_ ISOCOST_GUARDED_BY(mutex_);  // since the directory was looked at
  bool is_looking_ ISOCOST_GUARDED_BY(mutex_) = false;
  bool is_full_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point looked_ ISOCOST_GUARDED_BY(mutex_) = {};
  PieceQueue pieces_;
  DiskThreads threads_;  // ends first
};

}  // namespace isocost
