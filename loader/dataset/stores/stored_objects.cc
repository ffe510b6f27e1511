#include "loader/dataset/stores/stored_objects.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/fingerprint.h"
#include "loader/dataset/stores/internal/ask_at_once.h"

namespace isocost {
namespace {

// Threads that wait for stamps: enough for thousands of answers a second at 50 ms each.
constexpr std::size_t kMostThreads = 64;
// Listings at once: their pages have up to a thousand objects each.
constexpr std::size_t kMostListings = 16;
constexpr std::chrono::seconds kKeptFailure{1};
// Pieces of an object that are asked for at once, to be held. Few, since reads come between them.
constexpr std::int64_t kHeldAtOnce = std::int64_t{16} << 20;
constexpr std::size_t kMostHeld = 4;

// Returns an error of a store as one of a machine, or of a stop.
Error of_machine(Error error) {
  switch (error.code()) {
    case ErrorCode::kNotFound:
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
    case ErrorCode::kIo:
      return error;
    default:
      return {ErrorCode::kIo, error.message()};
  }
}

// Counts parts of an object that are under way.
class PartsUnderWay {
 public:
  // Waits until another part may begin. Returns whether none has failed.
  bool may_begin() {
    const MutexLock lock(mutex_);
    ended_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return count_ < kMostHeld; });
    return !failure_;
  }
  void begin() {
    const MutexLock lock(mutex_);
    ++count_;
  }
  void end(std::optional<Error> failure) {
    const MutexLock lock(mutex_);
    --count_;
    if (failure && !failure_) failure_ = std::move(failure);
    ended_.notify_all();
  }
  // Waits until all have ended, as every request does. Returns why one has failed.
  Status wait() {
    const MutexLock lock(mutex_);
    ended_.wait(mutex_, [this]() ISOCOST_REQUIRES(mutex_) { return count_ == 0; });
    return failure_ ? Status(*failure_) : Status();
  }

 private:
  Mutex mutex_;
  ConditionVariable ended_;
  std::size_t count_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace

FileStamp file_stamp_of(const ObjectStamp& stamp) {
  Fingerprint version;
  version.add(std::string_view(stamp.etag));
  if (stamp.etag.empty()) version.add(stamp.modified_s);
  // Positive, and never that of no file.
  return {stamp.bytes, static_cast<std::int64_t>(version.value() >> 1U) | 1};
}

void StoredObjects::read(std::string_view key, const ObjectStamp& stamp, ByteRange range,
                         const std::stop_token& stop, ObjectStore::Done done) const {
  store_->read(prefix_ + std::string(key), stamp, range, stop_of(stop),
               [done = std::move(done)](Result<std::string> bytes) {
                 if (!bytes) bytes = of_machine(std::move(bytes).error());
                 done(std::move(bytes));
               });
}

Status StoredObjects::hold(const std::string& key, const std::stop_token& stop) {
  ISOCOST_ASSIGN(const ObjectStamp stamp, this->stamp(key, stop));
  // Shared, since the last `end` still holds the mutex when this function may already return.
  const auto parts = std::make_shared<PartsUnderWay>();
  for (std::int64_t at = 0; at < stamp.bytes && parts->may_begin(); at += kHeldAtOnce) {
    parts->begin();
    store_->hold(prefix_ + key, stamp, {at, std::min(at + kHeldAtOnce, stamp.bytes)}, stop_of(stop),
                 [parts](const Result<std::string>& held) {
                   parts->end(held ? std::nullopt : std::optional(of_machine(held.error())));
                 });
  }
  return parts->wait();
}

Result<ObjectStamp> StoredObjects::stamp(const std::string& key, const std::stop_token& stop) {
  {
    const MutexLock lock(mutex_);
    const auto known = stamps_.find(key);
    if (known != stamps_.end()) return known->second;
    const auto failed = failures_.find(key);
    if (failed != failures_.end()) {
      if (std::chrono::steady_clock::now() - failed->second.at < kKeptFailure) {
        return failed->second.error;
      }
      failures_.erase(failed);
    }
  }
  auto stamp = store_->stamp(prefix_ + key, stop_of(stop));
  if (stamp) {
    keep(key, *stamp);
    return stamp;
  }
  Error error = of_machine(std::move(stamp).error());
  if (error.code() != ErrorCode::kCancelled) {
    const MutexLock lock(mutex_);
    failures_.insert_or_assign(key, Failure{std::chrono::steady_clock::now(), error});
  }
  return error;
}

Result<std::vector<ListedObject>> StoredObjects::list(std::string_view prefix, bool recursive,
                                                      const std::stop_token& stop) {
  ISOCOST_ASSIGN(std::vector<ListedObject> listed,
                 store_->list(prefix_ + std::string(prefix), recursive, stop_of(stop)));
  for (ListedObject& object : listed) {
    object.key.erase(0, prefix_.size());
    keep(object.key, object.stamp);
  }
  return listed;
}

void StoredObjects::forget(const std::string& key) {
  const MutexLock lock(mutex_);
  stamps_.erase(key);
}

void StoredObjects::keep(const std::string& key, const ObjectStamp& stamp) {
  const MutexLock lock(mutex_);
  stamps_.insert_or_assign(key, stamp);
  failures_.erase(key);
}

Result<std::vector<std::vector<ListedObject>>> list_at_once(StoredObjects& objects,
                                                            std::span<const ObjectListing> listings,
                                                            std::size_t most,
                                                            const std::stop_token& stop) {
  std::vector<std::vector<ListedObject>> listed(listings.size());
  std::atomic<std::size_t> count = 0;
  ISOCOST_TRY(ask_at_once(listings.size(), kMostListings, stop,
                          [&](std::size_t i, const std::stop_token& ending) -> Status {
                            ISOCOST_ASSIGN(
                                listed[i],
                                objects.list(listings[i].prefix, listings[i].is_recursive, ending));
                            count += listed[i].size();
                            if (count <= most) return {};
                            return Error(ErrorCode::kResourceExhausted,
                                         "over " + std::to_string(most) + " objects; name fewer");
                          }));
  return listed;
}

Result<std::vector<bool>> ask_for_stamps(std::span<const ObjectName> names,
                                         const std::function<void()>& done,
                                         const std::stop_token& stop) {
  std::vector<std::uint8_t> are_there(names.size());  // bytes, since threads write neighbours
  ISOCOST_TRY(ask_at_once(names.size(), kMostThreads, stop,
                          [&](std::size_t i, const std::stop_token& ending) -> Status {
                            auto stamp = names[i].objects->stamp(names[i].key, ending);
                            are_there[i] = stamp ? 1 : 0;
                            if (done) done();
                            if (stamp || stamp.error().code() == ErrorCode::kNotFound) return {};
                            return std::move(stamp).error();
                          }));
  return std::vector<bool>(are_there.begin(), are_there.end());
}

}  // namespace isocost
