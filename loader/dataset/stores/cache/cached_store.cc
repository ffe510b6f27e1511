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
#include "loader/dataset/stores/cache/internal/piece_queue.h"

namespace isocost {
namespace {

using OnStop = std::stop_callback<std::function<void()>>;

// A store is asked for the part of a piece that is not held, from the first to the last block that
// is missing.
constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;
constexpr std::int64_t kPieceBytes = 16 * kBlockBytes;
static_assert(kPieceBytes <= PieceQueue::kMostBytes);

struct Fetch;

// A read from its start to its `done`. It may wait for several fetches.
struct Reading {
  CachedObject object;
  std::string key;
  ByteRange range;
  std::stop_token stop;
  ObjectStore::Done done;
  bool is_hold = false;         // the bytes are to be kept, and given to nobody
  bool is_second_look = false;  // changes only while it looks
  // Set by the fetch that has all of the range, if one has, before it is counted as ended.
  std::optional<std::string> bytes = {};
  std::unique_ptr<OnStop> on_stop = {};

  // Under the store's mutex:
  bool is_looking = true;  // a thread looks for the bytes and begins fetches, and ends it later
  bool is_stopped = false;
  bool is_over = false;  // its `done` is called, or will be
  std::size_t waits_for = 0;
  std::vector<std::shared_ptr<Fetch>> fetches = {};
  std::optional<Error> failure = {};
};
using SharedReading = std::shared_ptr<Reading>;

// A read of the inner store, for one or several readings.
struct Fetch {
  CachedObject object;
  std::string key;
  ByteRange range;
  bool is_kept = true;                      // in the cache, once it has come
  PieceQueue::SharedPiece piece = nullptr;  // null: the range is exact
  std::stop_source ending = {};
  std::unique_ptr<OnStop> on_end = {};
  // Readings that still want it; under the store's mutex. Nobody joins one that nobody wants.
  std::size_t wanted_by = 0;
  std::vector<SharedReading> readings = {};  // under the store's mutex

  bool holds(ByteRange part) const { return range.begin <= part.begin && range.end >= part.end; }
};
using SharedFetch = std::shared_ptr<Fetch>;

Error stopped() { return {ErrorCode::kCancelled, "stopped before it was read"}; }

// Returns a range, extended to whole blocks, or pieces, of an object.
ByteRange extended(ByteRange range, std::int64_t unit, std::int64_t object_bytes) {
  return {range.begin / unit * unit, std::min((range.end + unit - 1) / unit * unit, object_bytes)};
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
  void hold(std::string_view key, const ObjectStamp& stamp, ByteRange range,
            const std::stop_token& stop, const Done& done) override;
  StoreCounts counts() const override { return store_->counts(); }

 private:
  void begin_reading(const SharedReading& reading) ISOCOST_EXCLUDES(mutex_);
  void end_one() ISOCOST_EXCLUDES(mutex_);
  void look_up(const SharedReading& reading) ISOCOST_EXCLUDES(mutex_);
  void fetch_pieces(const SharedReading& reading) ISOCOST_EXCLUDES(mutex_);
  std::uint64_t pieces_kept() const ISOCOST_EXCLUDES(mutex_);
  std::vector<ByteRange> missing_pieces(const Reading& reading);
  bool fetch(const SharedReading& reading, const std::vector<ByteRange>& ranges, bool pieces,
             std::optional<std::uint64_t> kept = std::nullopt) ISOCOST_EXCLUDES(mutex_);
  std::vector<SharedFetch> join(const SharedReading& reading, const std::vector<ByteRange>& ranges,
                                bool pieces) ISOCOST_REQUIRES(mutex_);
  SharedFetch joinable(const std::string& entry, std::int64_t offset, ByteRange whole,
                       bool pieces) const ISOCOST_REQUIRES(mutex_);
  std::int64_t next_begin(const std::string& entry, ByteRange left) const ISOCOST_REQUIRES(mutex_);
  void begin(const SharedFetch& fetch);
  void stop(const SharedReading& reading) ISOCOST_EXCLUDES(mutex_);
  void end_early(const SharedFetch& fetch);
  void arrived(const SharedFetch& fetch, Result<std::string> bytes);
  void finish(const SharedFetch& fetch, Result<std::string> bytes) ISOCOST_EXCLUDES(mutex_);
  void settle(const SharedReading& reading) ISOCOST_EXCLUDES(mutex_);
  void conclude(const SharedReading& reading, Result<std::string> bytes) ISOCOST_EXCLUDES(mutex_);
  void deliver(const SharedReading& reading, Result<std::string> bytes) ISOCOST_EXCLUDES(mutex_);

  const std::shared_ptr<ObjectStore> store_;
  const std::shared_ptr<ObjectCache> cache_;
  DiskCache& disk_;
  std::stop_source ending_;
  mutable Mutex mutex_;
  ConditionVariable ended_;
  std::size_t busy_ ISOCOST_GUARDED_BY(mutex_) = 0;           // readings and fetches under way
  std::uint64_t pieces_kept_ ISOCOST_GUARDED_BY(mutex_) = 0;  // so far
  // By entry and begin.
  std::multimap<std::pair<std::string, std::int64_t>, SharedFetch> fetches_
      ISOCOST_GUARDED_BY(mutex_);
};

CachedStore::~CachedStore() {
  ending_.request_stop();
  std::vector<SharedFetch> under_way;
  {
    const MutexLock lock(mutex_);
    for (const auto& [place, fetch] : fetches_) under_way.push_back(fetch);
  }
  for (const SharedFetch& fetch : under_way) end_early(fetch);
  const MutexLock lock(mutex_);
  // All of them end: fetches have been told to, and the disk's threads wait for nobody.
  ended_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return busy_ == 0; });
}

void CachedStore::begin_reading(const SharedReading& reading) {
  {
    const MutexLock lock(mutex_);
    ++busy_;
  }
  disk_.threads().add([this, reading] { look_up(reading); });
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
  begin_reading(std::make_shared<Reading>(Reading{.object = {name_of(key), stamp},
                                                  .key = std::string(key),
                                                  .range = range,
                                                  .stop = std::move(stop),
                                                  .done = std::move(done)}));
}

void CachedStore::hold(std::string_view key, const ObjectStamp& stamp, ByteRange range,
                       const std::stop_token& stop, const Done& done) {
  if (!disk_.keeps_pieces() || !disk_.begin_read()) return done(std::string());
  begin_reading(std::make_shared<Reading>(Reading{.object = {name_of(key), stamp},
                                                  .key = std::string(key),
                                                  .range = range,
                                                  .stop = stop,
                                                  .done = done,
                                                  .is_hold = true}));
}

// Looks for a reading's bytes in the cache, on a thread of the disk.
void CachedStore::look_up(const SharedReading& reading) {
  if (ending_.stop_requested() || reading->stop.stop_requested()) {
    return conclude(reading, stopped());
  }
  const bool pieces = disk_.keeps_pieces() && !reading->is_second_look;
  if (reading->is_hold && pieces) return fetch_pieces(reading);
  if (reading->is_hold) {
    fetch(reading, {}, false);
    return;
  }
  std::string bytes;
  if (disk_.read(reading->object, reading->range, bytes)) {
    return conclude(reading, std::move(bytes));
  }
  if (!reading->is_second_look) disk_.count_miss();
  if (pieces) return fetch_pieces(reading);
  fetch(reading, {reading->range}, false);
}

// Fetches the pieces of a reading that are not held. A piece that is kept between the look for what
// is held and that for what is under way would be fetched twice, so both are done again then.
void CachedStore::fetch_pieces(const SharedReading& reading) {
  constexpr int kMostLooks = 8;
  for (int looks = 1;; ++looks) {
    const std::uint64_t kept = pieces_kept();
    const std::vector<ByteRange> wanted = missing_pieces(*reading);
    if (wanted.empty() && !reading->is_hold) {
      std::string bytes;
      if (disk_.read(reading->object, reading->range, bytes)) {
        return conclude(reading, std::move(bytes));
      }
      fetch(reading, {reading->range}, false);  // it was damaged a moment ago
      return;
    }
    if (fetch(reading, wanted, true, looks < kMostLooks ? std::optional(kept) : std::nullopt)) {
      return;
    }
  }
}

std::uint64_t CachedStore::pieces_kept() const {
  const MutexLock lock(mutex_);
  return pieces_kept_;
}

// Returns the parts of a range's pieces that are not held: of each piece one, of whole blocks.
std::vector<ByteRange> CachedStore::missing_pieces(const Reading& reading) {
  const std::int64_t bytes = reading.object.stamp.bytes;
  const ByteRange all = extended(reading.range, kPieceBytes, bytes);
  std::vector<ByteRange> missing;
  for (std::int64_t at = all.begin; at < all.end; at += kPieceBytes) {
    const auto holes = disk_.missing(reading.object, {at, std::min(at + kPieceBytes, all.end)});
    if (holes.empty()) continue;
    missing.push_back(extended({holes.front().begin, holes.back().end}, kBlockBytes, bytes));
  }
  return missing;
}

// Returns a fetch under way that holds an offset, and where ranges are exact the whole of them.
SharedFetch CachedStore::joinable(const std::string& entry, std::int64_t offset, ByteRange whole,
                                  bool pieces) const {
  constexpr int kMostLookedAt = 16;
  auto at = fetches_.upper_bound({entry, offset});
  for (int i = 0; i < kMostLookedAt && at != fetches_.begin(); ++i) {
    --at;
    if (at->first.first != entry) break;
    const SharedFetch& candidate = at->second;
    if (candidate->wanted_by == 0 || candidate->range.end <= offset) continue;
    if (pieces || candidate->holds(whole)) return candidate;
  }
  return nullptr;
}

// Returns where a new fetch of what is left of a piece must end: at the next one under way.
std::int64_t CachedStore::next_begin(const std::string& entry, ByteRange left) const {
  const auto next = fetches_.upper_bound({entry, left.begin});
  if (next == fetches_.end() || next->first.first != entry) return left.end;
  return std::min(left.end, next->first.second);
}

// Has a reading wait for ranges, by fetches that are under way and by new ones. Returns false, and
// does nothing, if another number of pieces than `kept` has been kept by now.
bool CachedStore::fetch(const SharedReading& reading, const std::vector<ByteRange>& ranges,
                        bool pieces, std::optional<std::uint64_t> kept) {
  std::vector<SharedFetch> made;
  std::vector<SharedFetch> all;
  {
    const MutexLock lock(mutex_);
    if (kept && *kept != pieces_kept_) return false;
    made = join(reading, ranges, pieces);
    all = reading->fetches;
  }
  reading->on_stop = std::make_unique<OnStop>(reading->stop, [this, reading] {
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): it outlives the callback.
    const SharedReading kept_alive = reading;
    stop(kept_alive);
  });
  for (const SharedFetch& next : made) {
    if (!next->piece) begin(next);
    if (next->piece) disk_.pieces().add(next->piece, !reading->is_hold);
    if (ending_.stop_requested()) end_early(next);
  }
  if (!reading->is_hold) {
    for (const SharedFetch& next : all) {
      if (next->piece) disk_.pieces().await(next->piece);
    }
  }
  {
    const MutexLock lock(mutex_);
    reading->is_looking = false;
  }
  settle(reading);
  return true;
}

// Returns the fetches that are new, and have not begun.
std::vector<SharedFetch> CachedStore::join(const SharedReading& reading,
                                           const std::vector<ByteRange>& ranges, bool pieces) {
  const std::string entry = entry_name(reading->object);
  std::vector<SharedFetch> made;
  for (const ByteRange& range : ranges) {
    for (std::int64_t at = range.begin; at < range.end;) {
      SharedFetch next = joinable(entry, at, range, pieces);
      if (!next) {
        const ByteRange left{at, range.end};
        const ByteRange part{at, pieces ? next_begin(entry, left) : left.end};
        next = std::make_shared<Fetch>(Fetch{.object = reading->object,
                                             .key = reading->key,
                                             .range = part,
                                             .is_kept = !reading->is_second_look});
        if (pieces) {
          next->piece = std::make_shared<PieceQueue::Piece>(
              part.bytes(), [this, fetch = std::weak_ptr(next)] {
                if (const SharedFetch held = fetch.lock()) begin(held);
              });
        }
        fetches_.emplace(std::pair(entry, at), next);
        made.push_back(next);
        ++busy_;
      }
      ++next->wanted_by;
      next->readings.push_back(reading);
      ++reading->waits_for;
      reading->fetches.push_back(next);
      at = next->range.end;
    }
  }
  return made;
}

void CachedStore::begin(const SharedFetch& fetch) {
  fetch->on_end = std::make_unique<OnStop>(ending_.get_token(), [ending = fetch->ending] {
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): it outlives the callback.
    std::stop_source kept_alive = ending;
    kept_alive.request_stop();
  });
  store_->read(fetch->key, fetch->object.stamp, fetch->range, fetch->ending.get_token(),
               [this, fetch](Result<std::string> bytes) { arrived(fetch, std::move(bytes)); });
}

// Ends a reading, without waiting for fetches that others want, too. On the thread of who stops it.
void CachedStore::stop(const SharedReading& reading) {
  std::vector<SharedFetch> unwanted;
  {
    const MutexLock lock(mutex_);
    if (reading->is_over) return;
    reading->is_stopped = true;
    for (const SharedFetch& fetch : reading->fetches) {
      std::erase(fetch->readings, reading);
      if (--fetch->wanted_by == 0) unwanted.push_back(fetch);
    }
    reading->fetches.clear();
  }
  for (const SharedFetch& fetch : unwanted) end_early(fetch);
  settle(reading);
}

// Ends a fetch that nobody wants any more.
void CachedStore::end_early(const SharedFetch& fetch) {
  std::stop_source ending = fetch->ending;
  ending.request_stop();
  if (!fetch->piece || !disk_.pieces().remove(fetch->piece)) return;
  disk_.threads().add([this, fetch] { finish(fetch, stopped()); });
}

// On the inner store's thread, which must not wait for the disk.
void CachedStore::arrived(const SharedFetch& fetch, Result<std::string> bytes) {
  const std::int64_t count = fetch->range.bytes();
  const bool is_whole = bytes && std::ssize(*bytes) == count;
  // The queue of pieces bounds those that wait to be written.
  const bool may_wait = fetch->piece || (is_whole && fetch->is_kept && disk_.begin_write(count));
  if (!is_whole || !fetch->is_kept || !may_wait) {
    if (fetch->piece) disk_.pieces().end(*fetch->piece);
    return finish(fetch, std::move(bytes));
  }
  const auto held = std::make_shared<std::string>(*std::move(bytes));
  disk_.threads().add([this, fetch, held, count] {
    disk_.keep(fetch->object, fetch->range, *held);
    if (fetch->piece) disk_.pieces().end(*fetch->piece);
    if (!fetch->piece) disk_.end_write(count);
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
    if (fetch->piece && bytes) ++pieces_kept_;
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
    if (!failure && !reading.is_hold && fetch->holds(reading.range)) {
      const auto at = static_cast<std::size_t>(reading.range.begin - fetch->range.begin);
      const auto count = static_cast<std::size_t>(reading.range.bytes());
      const bool may_take = i + 1 == readings.size() && count == held.size();
      reading.bytes = may_take ? std::exchange(held, {}) : held.substr(at, count);
    }
    {
      const MutexLock lock(mutex_);
      if (failure) reading.failure = failure;
      --reading.waits_for;
    }
    settle(readings[i]);
  }
  end_one();
}

// Goes on with a reading that waits for nothing more.
void CachedStore::settle(const SharedReading& reading) {
  bool looks_again = false;
  std::optional<Error> failure;
  {
    const MutexLock lock(mutex_);
    const bool waits = reading->waits_for > 0 && !reading->is_stopped;
    if (reading->is_over || reading->is_looking || waits) return;
    failure = reading->is_stopped ? stopped() : reading->failure;
    looks_again = !failure && !reading->bytes && !reading->is_hold;
    reading->is_over = !looks_again;
    if (looks_again) {
      reading->is_looking = true;
      reading->fetches.clear();
    }
  }
  if (looks_again) {
    // It has come in pieces, which lie in the cache by now, or else are asked for once more.
    reading->on_stop.reset();
    reading->is_second_look = true;
    return disk_.threads().add([this, reading] { look_up(reading); });
  }
  // Another thread than the one that stops it, which is not to run its `done`.
  if (failure) {
    return disk_.threads().add([this, reading, why = *failure] { deliver(reading, why); });
  }
  deliver(reading, reading->is_hold ? std::string() : std::move(reading->bytes).value_or(""));
}

// Ends a reading that no fetch knows.
void CachedStore::conclude(const SharedReading& reading, Result<std::string> bytes) {
  {
    const MutexLock lock(mutex_);
    reading->is_over = true;
  }
  deliver(reading, std::move(bytes));
}

void CachedStore::deliver(const SharedReading& reading, Result<std::string> bytes) {
  reading->on_stop.reset();
  {
    const MutexLock lock(mutex_);
    reading->fetches.clear();
  }
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
