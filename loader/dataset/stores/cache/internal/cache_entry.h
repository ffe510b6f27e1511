#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_range.h"
#include "base/file_descriptor.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/cache/internal/entry_format.h"
#include "loader/dataset/stores/cache/internal/stored_ranges.h"

namespace isocost {

/// An open entry of a cache. While a call reads or writes it, it is locked against removal by any
/// process: that is what counts as being read. Thread-safe.
class CacheEntry {
 public:
  /// Opens an object's entry. Errors: kNotFound; kCorrupt (no entry, or cut off); kAlreadyExists
  /// (another object has the same hash); kIo.
  static Result<std::shared_ptr<CacheEntry>> open(const std::filesystem::path& directory,
                                                  const CachedObject& object);
  /// Opens an entry by its file's name, as `open`.
  static Result<std::shared_ptr<CacheEntry>> open_file(const std::filesystem::path& file);
  /// Makes an object's entry, unless another process does, and opens it. Errors: those of `open`;
  /// kUnsupported (a name that is too long).
  static Result<std::shared_ptr<CacheEntry>> create(const std::filesystem::path& directory,
                                                    const CachedObject& object);

  const CachedObject& object() const { return header_.object; }

  enum class Found : std::uint8_t {
    kAll,      ///< The bytes are read.
    kNotAll,   ///< Some are not held.
    kDamaged,  ///< Some were damaged, and are held no longer.
    kGone,     ///< The entry has been removed.
  };
  /// Reads a range.
  Found read(ByteRange range, std::string& bytes) ISOCOST_EXCLUDES(mutex_) ISOCOST_EXCLUDES(using_);
  /// Returns the parts of a range that are not held; nothing if the entry has been removed. It
  /// counts as a use.
  std::optional<std::vector<ByteRange>> missing(ByteRange range) ISOCOST_EXCLUDES(mutex_)
      ISOCOST_EXCLUDES(using_);
  /// Writes a range. Errors: kNotFound (the entry has been removed), kIo.
  Status keep(ByteRange range, std::string_view bytes) ISOCOST_EXCLUDES(mutex_)
      ISOCOST_EXCLUDES(using_);
  /// Compares a range that is held with its CRC, without counting as a use. Drops it if it is
  /// damaged. Returns whether it is good, or the entry has been removed.
  bool verify(const StoredRange& held) ISOCOST_EXCLUDES(mutex_) ISOCOST_EXCLUDES(using_);
  /// Returns the ranges that are held. Errors: kNotFound, kIo.
  Result<StoredRanges> ranges() ISOCOST_EXCLUDES(mutex_) ISOCOST_EXCLUDES(using_);

 private:
  class Use;
  CacheEntry(FileDescriptor file, FileDescriptor records, EntryHeader header);

  Status learn_records(std::int64_t file_bytes) ISOCOST_EXCLUDES(mutex_);
  void set_used() const;
  std::vector<ByteRange> known_missing(ByteRange range) const ISOCOST_EXCLUDES(mutex_);
  bool read_piece(const StoredRange& held, ByteRange part, char* to) ISOCOST_EXCLUDES(mutex_);
  void drop(const StoredRange& damaged) ISOCOST_EXCLUDES(mutex_);
  bool read_at(std::int64_t offset, char* to, std::int64_t bytes) const;

  const FileDescriptor file_;
  const FileDescriptor records_;  // the same file, for appending; not open on a read-only disk
  const EntryHeader header_;
  Mutex using_;
  int users_ ISOCOST_GUARDED_BY(using_) = 0;
  mutable Mutex mutex_;
  StoredRanges ranges_ ISOCOST_GUARDED_BY(mutex_);
  std::int64_t learned_to_ ISOCOST_GUARDED_BY(mutex_);  // place in the file
};

}  // namespace isocost
