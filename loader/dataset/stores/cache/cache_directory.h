#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// An entry of a cache: the bytes that it holds of an object.
struct CachedObjectInfo {
  std::string object;           ///< Its address without secrets.
  std::string etag;             ///< Entity tag, as the server gave it; empty: none.
  std::int64_t held_bytes = 0;  ///< Bytes of the object that are held.
  std::int64_t bytes = 0;       ///< Size of the object.
  std::int64_t disk_bytes = 0;  ///< Room of the entry on the disk.
  std::chrono::system_clock::time_point last_use;
};

/// Lists the entries of a cache, the one that was used last first. Errors: kInvalidArgument for a
/// directory that is no cache or one of another version; kNotFound; kIo.
Result<std::vector<CachedObjectInfo>> list_cache(const std::filesystem::path& directory);

struct RemovedEntries {
  std::int64_t entries = 0;
  std::int64_t disk_bytes = 0;
  std::int64_t in_use = 0;  ///< Entries that a process was reading, which are left.
};
/// Removes the entries of objects whose addresses begin with a prefix; the empty one: all of them,
/// also those of a cache of another version. Errors: those of list_cache.
Result<RemovedEntries> remove_cached(const std::filesystem::path& directory,
                                     std::string_view prefix);

struct CacheCheck {
  std::int64_t entries = 0;
  std::int64_t ranges = 0;
  std::int64_t bytes = 0;
  std::int64_t damaged = 0;  ///< Ranges and entries that were removed, since their bytes are bad.
};
/// Reads all ranges, and removes those whose bytes are not those that were stored. `damage` is told
/// of each. Errors: those of list_cache; kIo.
Result<CacheCheck> verify_cache(const std::filesystem::path& directory,
                                const std::function<void(std::string_view)>& damage);

}  // namespace isocost
