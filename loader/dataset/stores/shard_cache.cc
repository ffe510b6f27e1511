#include "loader/dataset/stores/shard_cache.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <iterator>

namespace isocost {

std::size_t default_max_open() {
  constexpr std::size_t kMost = 256;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return kMost;
  return static_cast<std::size_t>(std::clamp<rlim_t>(files.rlim_cur / 4, 1, kMost));
}

ShardCache::ShardCache(std::size_t max_open, std::int64_t max_inflated_bytes)
    : max_open_(std::max<std::size_t>(max_open, 1)),
      max_inflated_bytes_(max_inflated_bytes),
      opening_(64) {}

Result<std::shared_ptr<const ShardFile>> ShardCache::get(const std::filesystem::path& path,
                                                         const ShardIdentity& identity) {
  const std::string name = path.string();
  if (auto file = find(name)) return file;
  const MutexLock opening(opening_[std::hash<std::string>{}(name) % opening_.size()]);
  if (auto file = find(name)) return file;
  ISOCOST_ASSIGN(auto file, ShardFile::open(path));
  ISOCOST_TRY(compare(name, *file, identity));
  insert(name, file);
  return file;
}

void ShardCache::read_ahead(const std::filesystem::path& path, const ShardIdentity& identity,
                            std::span<const ByteRange> ranges) {
  if (const auto file = find(path.string())) {
    file->read_ahead(ranges);
    return;
  }
  // Requested before the file is opened, so that a disk or a network is waited for only once, and
  // not for one range after another.
  ShardFile::read_ahead(path, identity.stamp.bytes, ranges);
  static_cast<void>(get(path, identity));
}

Status ShardCache::compare(const std::string& name, const ShardFile& file,
                           const ShardIdentity& identity) {
  const Error changed(ErrorCode::kUnavailable,
                      fmt::format("{}: has changed since it was indexed: put it back, or start "
                                  "again with what it is now",
                                  name));
  if (file.state().stamp != identity.stamp) return changed;
  {
    const MutexLock lock(mutex_);
    const auto compared = compared_.find(name);
    if (compared != compared_.end() && compared->second == file.state()) return {};
  }
  ISOCOST_ASSIGN(const std::uint64_t hash, file.content_hash());
  if (hash != identity.content_hash) return changed;
  const MutexLock lock(mutex_);
  compared_[name] = file.state();
  return {};
}

// Returns the open file if it is unchanged; closes one that has changed.
std::shared_ptr<const ShardFile> ShardCache::find(const std::string& name) {
  std::shared_ptr<const ShardFile> file;
  {
    const MutexLock lock(mutex_);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    files_.splice(files_.begin(), files_, found->second);
    file = found->second->second;
  }
  if (!file->changed()) return file;
  const MutexLock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end() && found->second->second == file) take(found->second);
  return nullptr;
}

void ShardCache::insert(const std::string& name, std::shared_ptr<const ShardFile> file) {
  Files evicted;  // closed after the lock is released
  const MutexLock lock(mutex_);
  inflated_bytes_ += file->inflated() ? file->size() : 0;
  files_.emplace_front(name, std::move(file));
  by_name_[name] = files_.begin();
  while (files_.size() > 1 &&
         (files_.size() > max_open_ || inflated_bytes_ > max_inflated_bytes_)) {
    // Only evicting inflated files frees inflated bytes.
    auto victim = std::prev(files_.end());
    while (files_.size() <= max_open_ && !victim->second->inflated()) --victim;
    if (victim == files_.begin()) break;
    evicted.splice(evicted.begin(), take(victim));
  }
}

// Takes a file out of the cache; it is closed with the list that is returned.
ShardCache::Files ShardCache::take(Files::iterator file) {
  inflated_bytes_ -= file->second->inflated() ? file->second->size() : 0;
  by_name_.erase(file->first);
  Files taken;
  taken.splice(taken.begin(), files_, file);
  return taken;
}

}  // namespace isocost
