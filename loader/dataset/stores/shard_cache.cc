#include "loader/dataset/stores/shard_cache.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "loader/dataset/stores/stored_objects.h"  // IWYU pragma: keep (the type of `objects`)

namespace isocost {
namespace {

// Begins to read ranges of a plain tar. Those of an inflated one are at hand.
std::shared_ptr<const ByteSource> fetch_plain(const ShardFile& file,
                                              std::span<const ByteRange> ranges,
                                              const std::stop_token& stop) {
  return file.inflated() ? nullptr : file.fetch(ranges, stop);
}

}  // namespace

std::size_t default_max_open() {
  constexpr std::size_t kMost = 256;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return kMost;
  return static_cast<std::size_t>(std::clamp<rlim_t>(files.rlim_cur / 4, 1, kMost));
}

ShardCache::ShardCache(std::size_t max_open, std::int64_t max_inflated_bytes)
    : max_open_(std::max<std::size_t>(max_open, 1)),
      max_inflated_bytes_(max_inflated_bytes),
      opening_(1024) {}

Result<std::shared_ptr<const ShardFile>> ShardCache::get(const StoredFile& stored,
                                                         const ShardIdentity& identity,
                                                         const std::stop_token& stop) {
  const std::string name = stored.path.string();
  if (auto file = find(name)) return file;
  const MutexLock opening(opening_[std::hash<std::string>{}(name) % opening_.size()]);
  if (auto file = find(name)) return file;
  auto file = open_as_indexed(stored, identity, stop);
  if (file) {
    insert(name, *file);
  } else if (stored.objects) {
    stored.objects->forget(stored.key);  // it may be put back, or have been stored again
  }
  return file;
}

// Compares the bytes before all of a compressed shard is read.
Result<std::shared_ptr<const ShardFile>> ShardCache::open_as_indexed(const StoredFile& place,
                                                                     const ShardIdentity& identity,
                                                                     const std::stop_token& stop) {
  ISOCOST_ASSIGN(auto stored, open_stored(place, stop));
  ISOCOST_TRY(compare(place, *stored, identity));
  return inflate_shard(place, std::move(stored), stop);
}

std::shared_ptr<const ByteSource> ShardCache::fetch(const StoredFile& stored,
                                                    const ShardIdentity& identity,
                                                    std::span<const ByteRange> ranges,
                                                    const std::stop_token& stop) {
  if (const auto file = find(stored.path.string())) return fetch_plain(*file, ranges, stop);
  if (stored.objects) {
    const auto file = get(stored, identity, stop);
    return file ? fetch_plain(**file, ranges, stop) : nullptr;
  }
  // Requested before the file is opened, so that a disk or a network is waited for only once, and
  // not for one range after another.
  read_file_ahead(stored.path, identity.stamp.bytes, ranges);
  static_cast<void>(get(stored, identity));
  return nullptr;
}

Status ShardCache::compare(const StoredFile& stored, const ShardFile& file,
                           const ShardIdentity& identity) {
  const std::string name = stored.path.string();
  const Error changed(ErrorCode::kUnavailable,
                      fmt::format("{}: has changed since it was indexed: put it back, or start "
                                  "again with what it is now",
                                  name));
  const FileStamp& stamp = file.state().stamp;
  // The stamp of an object tells its bytes apart. An object that was stored again, or was indexed
  // on a disk, may have another one, and the same bytes.
  if (stored.objects && stamp == identity.stamp) return {};
  const bool may_be_same =
      stored.objects ? stamp.bytes == identity.stamp.bytes : stamp == identity.stamp;
  if (!may_be_same) return changed;
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
