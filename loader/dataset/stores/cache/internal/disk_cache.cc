#include "loader/dataset/stores/cache/internal/disk_cache.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "loader/dataset/stores/cache/internal/cache_place.h"
#include "loader/dataset/stores/cache/internal/eviction.h"

namespace isocost {
namespace {

constexpr std::size_t kThreads = 4;
// Reads that wait for the disk, and bytes that wait to be written. What is beyond them passes by,
// so that a disk which is slower than the network costs neither time nor memory.
constexpr std::int64_t kMostReads = 16'384;
constexpr std::int64_t kMostWaitingBytes = std::int64_t{128} << 20;
constexpr std::size_t kMostOpen = 1024;

// A sixteenth of the size is left free for what is in flight: each process looks at the directory
// after it wrote a sixteenth of that, and so 16 processes do not go beyond the size together.
constexpr std::int64_t kFreeShare = 16;
constexpr std::int64_t kLookShare = kFreeShare * 16;
constexpr std::int64_t kMostLookAfter = std::int64_t{256} << 20;
constexpr std::int64_t kDiskPage = 4096;
// While all entries are being read, the directory is looked at again after so long.
constexpr std::chrono::seconds kFullFor{1};

// An entry has two descriptors. Most are left to others.
std::size_t most_open() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 16;
  return std::clamp<std::size_t>(static_cast<std::size_t>(limit.rlim_cur) / 16, 4, kMostOpen);
}

// Returns the room that a write takes at most, in whole pages, with its record.
std::int64_t disk_bytes_of(std::int64_t bytes) { return (bytes / kDiskPage + 3) * kDiskPage; }

}  // namespace

DiskCache::DiskCache(ObjectCacheOptions options, const std::string& problem)
    : options_(std::move(options)),
      most_open_(most_open()),
      look_after_(std::clamp(options_.max_bytes / kLookShare, kDiskPage, kMostLookAfter)),
      written_(look_after_),
      threads_(kThreads) {
  if (!problem.empty()) turn_off(problem);
}

CacheCounts DiskCache::counts() const {
  return {.hits = hits_,
          .hit_bytes = hit_bytes_,
          .misses = misses_,
          .kept_bytes = kept_bytes_,
          .damaged = damaged_,
          .evicted = evicted_};
}

bool DiskCache::keeps_pieces() const {
  if (!keeps_pieces_ || is_off_) return false;
  const MutexLock lock(mutex_);
  return !is_full_;
}

bool DiskCache::begin_read() {
  if (++reads_ <= kMostReads) return true;
  --reads_;
  return false;
}

bool DiskCache::begin_write(std::int64_t bytes) {
  if (is_off_) return false;
  waiting_bytes_ += bytes;
  if (waiting_bytes_ <= kMostWaitingBytes) return true;
  waiting_bytes_ -= bytes;
  return false;
}

// Returns the open entry of an object; null if there is none.
DiskCache::Entry DiskCache::find(const CachedObject& object) {
  const std::string name = entry_name(object);
  {
    const MutexLock lock(mutex_);
    const auto found = opened_.find(name);
    if (found != opened_.end()) {
      uses_.splice(uses_.begin(), uses_, found->second.use);
      return found->second.entry->object() == object ? found->second.entry : nullptr;
    }
  }
  auto entry = CacheEntry::open(options_.directory, object);
  if (entry) return remember(name, *std::move(entry));
  if (entry.error().code() == ErrorCode::kCorrupt) {
    ++damaged_;
    warn_of_damage(entry.error().message());
    remove_entry(options_.directory, name);
  }
  return nullptr;
}

DiskCache::Entry DiskCache::remember(const std::string& name, Entry entry) {
  std::vector<Entry> closed;  // outside of the lock
  const MutexLock lock(mutex_);
  const auto [at, is_new] = opened_.try_emplace(name);
  if (!is_new) return at->second.entry;
  uses_.push_front(name);
  at->second = {std::move(entry), uses_.begin()};
  const Entry remembered = at->second.entry;
  while (opened_.size() > most_open_) {
    const auto last = opened_.find(uses_.back());
    closed.push_back(std::move(last->second.entry));
    opened_.erase(last);
    uses_.pop_back();
  }
  return remembered;
}

void DiskCache::forget(const std::string& name, const Entry& entry) {
  const MutexLock lock(mutex_);
  const auto found = opened_.find(name);
  if (found == opened_.end() || found->second.entry != entry) return;
  uses_.erase(found->second.use);
  opened_.erase(found);
}

bool DiskCache::read(const CachedObject& object, ByteRange range, std::string& bytes) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Entry entry = find(object);
    if (!entry) return false;
    switch (entry->read(range, bytes)) {
      case CacheEntry::Found::kAll:
        ++hits_;
        hit_bytes_ += range.bytes();
        return true;
      case CacheEntry::Found::kNotAll:
        return false;
      case CacheEntry::Found::kDamaged:
        ++damaged_;
        warn_of_damage(fmt::format("bytes {} to {} of {} have changed on the disk", range.begin,
                                   range.end, object.name));
        return false;
      case CacheEntry::Found::kGone:
        forget(entry_name(object), entry);
    }
  }
  return false;
}

std::vector<ByteRange> DiskCache::missing(const CachedObject& object, ByteRange range) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Entry entry = find(object);
    if (!entry) return {range};
    if (auto missing = entry->missing(range)) return *std::move(missing);
    forget(entry_name(object), entry);
  }
  return {range};
}

Result<DiskCache::Entry> DiskCache::make(const CachedObject& object) {
  auto made = CacheEntry::create(options_.directory, object);
  if (!made && made.error().code() == ErrorCode::kNotFound) {
    // Somebody deleted the directory.
    ISOCOST_TRY(prepare_cache_place(options_.directory));
    made = CacheEntry::create(options_.directory, object);
  }
  if (!made) return std::move(made).error();
  return remember(entry_name(object), *std::move(made));
}

void DiskCache::keep(const CachedObject& object, ByteRange range, std::string_view bytes) {
  const std::string name = entry_name(object);
  if (is_off_ || !make_room(range.bytes(), name)) return;
  for (int attempt = 0; attempt < 3; ++attempt) {
    Entry entry = find(object);
    if (!entry) {
      auto made = make(object);
      const bool is_refused = !made && (made.error().code() == ErrorCode::kUnsupported ||
                                        made.error().code() == ErrorCode::kAlreadyExists);
      if (is_refused) return;  // of this object nothing can be kept
      if (!made) return turn_off(made.error().message());
      entry = *std::move(made);
    }
    const Status kept = entry->keep(range, bytes);
    if (kept) {
      kept_bytes_ += range.bytes();
      return;
    }
    if (kept.error().code() != ErrorCode::kNotFound) return turn_off(kept.error().message());
    forget(name, entry);
  }
}

// Counts a write, and removes entries where it is time to look. Returns whether there is room.
bool DiskCache::make_room(std::int64_t bytes, const std::string& spared) {
  const std::int64_t needed = disk_bytes_of(bytes);
  const std::int64_t most = options_.max_bytes - options_.max_bytes / kFreeShare - needed;
  if (most < 0) return false;  // it does not fit an empty cache
  {
    const MutexLock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (is_full_ && now - looked_ < kFullFor) return false;
    written_ += needed;
    if (is_looking_ || (written_ <= look_after_ && !is_full_)) return !is_full_;
    is_looking_ = true;
    looked_ = now;
  }
  const Eviction eviction = evict(options_.directory, most, spared);
  evicted_ += eviction.removed;
  const MutexLock lock(mutex_);
  is_looking_ = false;
  written_ = needed;
  is_full_ = eviction.disk_bytes > most;
  return !is_full_;
}

void DiskCache::warn_of_damage(const std::string& what) {
  if (told_of_damage_.exchange(true)) return;
  log(options_.log, LogLevel::kWarning,
      fmt::format("the cache {}: {}: they are dropped and fetched again, as are others like them; "
                  "`isocost cache verify {}` looks at all",
                  options_.directory.string(), what, options_.directory.string()));
}

void DiskCache::turn_off(const std::string& problem) {
  if (is_off_.exchange(true)) return;
  log(options_.log, LogLevel::kWarning,
      fmt::format(
          "the cache {}: {}: nothing more is kept in it until the next start; what it holds "
          "is used, and the rest comes from the store",
          options_.directory.string(), problem));
}

}  // namespace isocost
