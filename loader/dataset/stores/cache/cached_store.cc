#include "loader/dataset/stores/cache/cached_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "loader/dataset/stores/cache/internal/disk_cache.h"

namespace isocost {
namespace {

using OnStop = std::stop_callback<std::function<void()>>;

// A read from its start to its `done`. It may wait for several fetches.
struct Reading {
  CachedObject object;
  std::string key;
  ByteRange range;
  std::stop_token stop;
  ObjectStore::Done done;
  // Fetches that it waits for, and one more while they are begun. Under the store's mutex.
  std::size_t waits_for = 1;
  std::optional<Error> failure = {};  // under the store's mutex
  // Set by the fetch that has all of the range, if one has, before it is counted as ended.
  std::optional<std::string> bytes = {};
  bool is_second_look = false;
  std::vector<std::unique_ptr<OnStop>> on_stop = {};
};
using SharedReading = std::shared_ptr<Reading>;

// A read of the inner store, for one or several readings.
struct Fetch {
  CachedObject object;
  std::string key;
  ByteRange range;
  bool is_kept = true;  // in the cache, once it has come
  std::stop_source ending = {};
  std::unique_ptr<OnStop> on_end = {};
  // Readings that still want it; under the store's mutex. Nobody joins one that nobody wants.
  std::size_t wanted_by = 0;
  std::vector<SharedReading> readings = {};  // under the store's mutex

  bool holds(ByteRange part) const { return range.begin <= part.begin && range.end >= part.end; }
};
using SharedFetch = std::shared_ptr<Fetch>;

// Returns a range, extended to whole blocks of an object.
ByteRange whole_blocks(ByteRange range, std::int64_t object_bytes) {
  constexpr std::int64_t kBlock = DiskCache::kBlockBytes;
  return {range.begin / kBlock * kBlock,
          std::min((range.end + kBlock - 1) / kBlock * kBlock, object_bytes)};
}

class CachedStore final : public ObjectStore {
 public:
  CachedStore(std::shared_ptr<ObjectStore> store, std::shared_ptr<ObjectCache> cache)
      : store_(std::move(store)), cache_(std::move(cache)), disk_(cache_->disk()) {}
  CachedStore(const CachedStore&) = delete;
  CachedStore& operator=(const CachedStore&) = delete;
  ~CachedStore() override;

  std::string name_of(std::string_view key) const override { return store_->name_of(key); }
  Result<ObjectStamp> stamp(std::string_view key, const std::stop_token& stop) override {
    return store_->stamp(key, stop);
  }
  Result<std::vector<ListedObject>> list(std::string_view prefix, bool recursive,
                                         const std::stop_token& stop) override {
    return store_->list(prefix, recursive, stop);
  }
  void read(std::string_view key, const ObjectStamp& stamp, ByteRange range, std::stop_token stop,
            Done done) override;
  StoreCounts counts() const override { return store_->counts(); }

 private:
  void begin_one() ISOCOST_EXCLUDES(mutex_);
  void end_one() ISOCOST_EXCLUDES(mutex_);
  void look_up(const SharedReading& reading);
  void fetch(const SharedReading& reading, const std::vector<ByteRange>& ranges);
  std::vector<ByteRange> wanted_from_store(const Reading& reading);
  SharedFetch joinable(const std::string& entry, std::int64_t offset, ByteRange whole) const
      ISOCOST_REQUIRES(mutex_);
  std::int64_t next_begin(const std::string& entry, ByteRange left) const ISOCOST_REQUIRES(mutex_);
  void leave(const SharedFetch& fetch) ISOCOST_EXCLUDES(mutex_);
  void arrived(const SharedFetch& fetch, Result<std::string> bytes);
  void finish(const SharedFetch& fetch, Result<std::string> bytes) ISOCOST_EXCLUDES(mutex_);
  void one_less(const SharedReading& reading, std::optional<Error> failure)
      ISOCOST_EXCLUDES(mutex_);
  void deliver(const SharedReading& reading, Result<std::string> bytes) ISOCOST_EXCLUDES(mutex_);

  const std::shared_ptr<ObjectStore> store_;
  const std::shared_ptr<ObjectCache> cache_;
  DiskCache& disk_;
  std::stop_source ending_;
  mutable Mutex mutex_;
  ConditionVariable ended_;
  std::size_t busy_ ISOCOST_GUARDED_BY(mutex_) = 0;  // readings and fetches under way
  // By entry and begin.
  std::multimap<std::pair<std::string, std::int64_t>, SharedFetch> fetches_
      ISOCOST_GUARDED_BY(mutex_);
};

CachedStore::~CachedStore() {
  ending_.request_stop();
  const MutexLock lock(mutex_);
  // All of them end: fetches have been told to, and the disk's threads wait for nobody.
  ended_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return busy_ == 0; });
}

void CachedStore::begin_one() {
  const MutexLock lock(mutex_);
  ++busy_;
}

// The last thing that a reading or a fetch does with this object.
void CachedStore::end_one() {
  const MutexLock lock(mutex_);
  if (--busy_ == 0) ended_.notify_all();
}

void CachedStore::read(std::string_view key, const ObjectStamp& stamp, ByteRange range,
                       std::stop_token stop, Done done) {
  const bool is_known = !stamp.etag.empty() || stamp.modified_s != 0;
  const bool is_within = range.begin >= 0 && range.begin < range.end && range.end <= stamp.bytes;
  if (!is_known || !is_within || !disk_.begin_read()) {
    return store_->read(key, stamp, range, std::move(stop), std::move(done));
  }
  begin_one();
  const auto reading = std::make_shared<Reading>(Reading{.object = {name_of(key), stamp},
                                                         .key = std::string(key),
                                                         .range = range,
                                                         .stop = std::move(stop),
                                                         .done = std::move(done)});
  disk_.threads().add([this, reading] { look_up(reading); });
}

// Looks for a reading's bytes in the cache, on a thread of the disk.
void CachedStore::look_up(const SharedReading& reading) {
  if (ending_.stop_requested() || reading->stop.stop_requested()) {
    return deliver(reading, Error(ErrorCode::kCancelled, "stopped before it was read"));
  }
  std::string bytes;
  if (disk_.read(reading->object, reading->range, bytes)) return deliver(reading, std::move(bytes));
  if (reading->is_second_look) return fetch(reading, {reading->range});
  disk_.count_miss();
  fetch(reading, wanted_from_store(*reading));
}

// Returns what a store is asked for: the range, or the blocks of it that are not held.
std::vector<ByteRange> CachedStore::wanted_from_store(const Reading& reading) {
  if (!disk_.blocks() || disk_.is_off()) return {reading.range};
  const std::int64_t bytes = reading.object.stamp.bytes;
  std::vector<ByteRange> wanted;
  for (const ByteRange& hole : disk_.missing(reading.object, whole_blocks(reading.range, bytes))) {
    const ByteRange blocks = whole_blocks(hole, bytes);
    if (!wanted.empty() && blocks.begin <= wanted.back().end) {
      wanted.back().end = blocks.end;
    } else {
      wanted.push_back(blocks);
    }
  }
  // It was damaged a moment ago, or another process has just kept it.
  if (wanted.empty()) wanted.push_back(reading.range);
  return wanted;
}

// Returns a fetch under way that holds an offset, and where ranges are exact the whole of them.
SharedFetch CachedStore::joinable(const std::string& entry, std::int64_t offset,
                                  ByteRange whole) const {
  constexpr int kMostLookedAt = 16;
  auto at = fetches_.upper_bound({entry, offset});
  for (int i = 0; i < kMostLookedAt && at != fetches_.begin(); ++i) {
    --at;
    if (at->first.first != entry) break;
    const SharedFetch& candidate = at->second;
    if (candidate->wanted_by == 0 || candidate->range.end <= offset) continue;
    if (disk_.blocks() || candidate->holds(whole)) return candidate;
  }
  return nullptr;
}

// Returns where a new fetch of what is left of a range must end: at the next one under way.
std::int64_t CachedStore::next_begin(const std::string& entry, ByteRange left) const {
  if (!disk_.blocks()) return left.end;
  const auto next = fetches_.upper_bound({entry, left.begin});
  if (next == fetches_.end() || next->first.first != entry) return left.end;
  return std::min(left.end, next->first.second);
}

// Has a reading wait for ranges, by fetches that are under way and by new ones.
void CachedStore::fetch(const SharedReading& reading, const std::vector<ByteRange>& ranges) {
  const std::string entry = entry_name(reading->object);
  std::vector<SharedFetch> all;
  std::vector<SharedFetch> begun;
  {
    const MutexLock lock(mutex_);
    for (const ByteRange& range : ranges) {
      for (std::int64_t at = range.begin; at < range.end;) {
        SharedFetch next = joinable(entry, at, range);
        if (!next) {
          const ByteRange part{at, next_begin(entry, {at, range.end})};
          next = std::make_shared<Fetch>(Fetch{.object = reading->object,
                                               .key = reading->key,
                                               .range = part,
                                               .is_kept = !reading->is_second_look});
          fetches_.emplace(std::pair(entry, at), next);
          begun.push_back(next);
          ++busy_;
        }
        ++next->wanted_by;
        next->readings.push_back(reading);
        ++reading->waits_for;
        all.push_back(next);
        at = next->range.end;
      }
    }
  }
  for (const SharedFetch& wanted : all) {
    reading->on_stop.push_back(std::make_unique<OnStop>(reading->stop, [this, wanted] {
      const SharedFetch kept_alive = wanted;
      leave(kept_alive);
    }));
  }
  for (const SharedFetch& next : begun) {
    next->on_end = std::make_unique<OnStop>(ending_.get_token(), [ending = next->ending] {
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): it outlives the callback.
      std::stop_source kept_alive = ending;
      kept_alive.request_stop();
    });
    store_->read(next->key, next->object.stamp, next->range, next->ending.get_token(),
                 [this, next](Result<std::string> bytes) { arrived(next, std::move(bytes)); });
  }
  one_less(reading, std::nullopt);
}

// One reading of a fetch has been stopped.
void CachedStore::leave(const SharedFetch& fetch) {
  std::stop_source ending = fetch->ending;
  {
    const MutexLock lock(mutex_);
    if (--fetch->wanted_by > 0) return;
  }
  ending.request_stop();
}

// On the inner store's thread, which must not wait for the disk.
void CachedStore::arrived(const SharedFetch& fetch, Result<std::string> bytes) {
  const std::int64_t count = fetch->range.bytes();
  const bool is_whole = bytes && std::ssize(*bytes) == count;
  if (!is_whole || !fetch->is_kept || !disk_.begin_write(count)) {
    return finish(fetch, std::move(bytes));
  }
  const auto held = std::make_shared<std::string>(*std::move(bytes));
  disk_.threads().add([this, fetch, held, count] {
    disk_.keep(fetch->object, fetch->range, *held);
    disk_.end_write(count);
    finish(fetch, std::move(*held));
  });
}

void CachedStore::finish(const SharedFetch& fetch, Result<std::string> bytes) {
  std::vector<SharedReading> readings;
  {
    const MutexLock lock(mutex_);
    const auto [first, last] =
        fetches_.equal_range({entry_name(fetch->object), fetch->range.begin});
    const auto found =
        std::find_if(first, last, [&](const auto& under_way) { return under_way.second == fetch; });
    if (found != last) fetches_.erase(found);
    readings.swap(fetch->readings);
  }
  fetch->on_end.reset();
  std::optional<Error> failure;
  std::string held;
  if (bytes) {
    held = *std::move(bytes);
  } else {
    failure = std::move(bytes).error();
  }
  for (std::size_t i = 0; i < readings.size(); ++i) {
    Reading& reading = *readings[i];
    if (!failure && fetch->holds(reading.range)) {
      const auto at = static_cast<std::size_t>(reading.range.begin - fetch->range.begin);
      const auto count = static_cast<std::size_t>(reading.range.bytes());
      const bool may_take = i + 1 == readings.size() && count == held.size();
      reading.bytes = may_take ? std::exchange(held, {}) : held.substr(at, count);
    }
    one_less(readings[i], failure);
  }
  end_one();
}

// A fetch of a reading has ended, or all of them have been begun.
void CachedStore::one_less(const SharedReading& reading, std::optional<Error> failure) {
  {
    const MutexLock lock(mutex_);
    if (failure) reading->failure = std::move(failure);
    if (--reading->waits_for > 0) return;
  }
  if (const auto& why = reading->failure) return deliver(reading, *why);
  if (auto& bytes = reading->bytes) return deliver(reading, *std::move(bytes));
  // It has come in pieces, which lie in the cache by now, or else are asked for once more.
  reading->on_stop.clear();
  reading->waits_for = 1;
  reading->is_second_look = true;
  disk_.threads().add([this, reading] { look_up(reading); });
}

void CachedStore::deliver(const SharedReading& reading, Result<std::string> bytes) {
  reading->on_stop.clear();
  disk_.end_read();
  {
    const Done done = std::move(reading->done);
    done(std::move(bytes));
  }
  end_one();
}

}  // namespace

std::unique_ptr<ObjectStore> create_cached_store(std::shared_ptr<ObjectStore> store,
                                                 std::shared_ptr<ObjectCache> cache) {
  return std::make_unique<CachedStore>(std::move(store), std::move(cache));
}

}  // namespace isocost
