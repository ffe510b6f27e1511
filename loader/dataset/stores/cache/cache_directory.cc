#include "loader/dataset/stores/cache/cache_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <system_error>

#include "loader/dataset/stores/cache/internal/cache_entry.h"
#include "loader/dataset/stores/cache/internal/cache_place.h"
#include "loader/dataset/stores/cache/internal/eviction.h"

namespace isocost {

namespace fs = std::filesystem;

Result<std::vector<CachedObjectInfo>> list_cache(const fs::path& directory) {
  ISOCOST_TRY(check_is_cache(directory, false));
  std::vector<EntryFile> files = list_entries(directory);
  std::ranges::sort(files, std::ranges::greater(), &EntryFile::used_ns);
  std::vector<CachedObjectInfo> found;
  for (const EntryFile& file : files) {
    const auto entry = CacheEntry::open_file(directory / file.name);
    if (!entry) continue;  // `verify_cache` removes it, or somebody has
    const auto ranges = (*entry)->ranges();
    if (!ranges) continue;
    const CachedObject& object = (*entry)->object();
    const std::chrono::nanoseconds used(file.used_ns);
    found.push_back({.object = object.name,
                     .etag = object.stamp.etag,
                     .held_bytes = ranges->bytes(),
                     .bytes = object.stamp.bytes,
                     .disk_bytes = file.disk_bytes,
                     .last_use = std::chrono::system_clock::time_point(
                         std::chrono::duration_cast<std::chrono::system_clock::duration>(used))});
  }
  return found;
}

Result<RemovedEntries> remove_cached(const fs::path& directory, std::string_view prefix) {
  ISOCOST_TRY(check_is_cache(directory, prefix.empty()));
  RemovedEntries removed;
  for (const EntryFile& file : list_entries(directory)) {
    if (!prefix.empty()) {
      const auto entry = CacheEntry::open_file(directory / file.name);
      if (!entry || !(*entry)->object().name.starts_with(prefix)) continue;
    }
    switch (remove_entry(directory, file.name)) {
      case Removal::kDone:
        ++removed.entries;
        removed.disk_bytes += file.disk_bytes;
        break;
      case Removal::kInUse:
        ++removed.in_use;
        break;
      case Removal::kFailed:
        break;
    }
  }
  // So that a cache of another version, which is empty now, is one of this version.
  if (prefix.empty() && list_entries(directory).empty()) {
    std::error_code ignored;
    fs::remove(directory / kCacheMark, ignored);
    ISOCOST_TRY(prepare_cache_place(directory));
  }
  return removed;
}

Result<CacheCheck> verify_cache(const fs::path& directory,
                                const std::function<void(std::string_view)>& damage) {
  ISOCOST_TRY(check_is_cache(directory, false));
  CacheCheck check;
  for (const EntryFile& file : list_entries(directory)) {
    const auto entry = CacheEntry::open_file(directory / file.name);
    if (!entry && entry.error().code() == ErrorCode::kCorrupt) {
      ++check.damaged;
      damage(entry.error().message());
      remove_entry(directory, file.name);
    }
    if (!entry) continue;
    ++check.entries;
    const auto ranges = (*entry)->ranges();
    if (!ranges) continue;
    for (const StoredRange& held : ranges->all()) {
      ++check.ranges;
      check.bytes += held.range.bytes();
      if ((*entry)->verify(held)) continue;
      ++check.damaged;
      damage(fmt::format("{}: bytes {} to {} have changed", (*entry)->object().name,
                         held.range.begin, held.range.end));
    }
  }
  return check;
}

}  // namespace isocost
