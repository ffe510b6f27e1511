#include "loader/dataset/stores/stored_objects.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

#include "base/fingerprint.h"

namespace isocost {
namespace {

// Threads that wait for stamps: enough for thousands of answers a second at 50 ms each.
constexpr std::size_t kMostThreads = 64;

}  // namespace

FileStamp file_stamp_of(const ObjectStamp& stamp) {
  Fingerprint version;
  version.add(std::string_view(stamp.etag));
  if (stamp.etag.empty()) version.add(stamp.modified_s);
  // Positive, and never that of no file.
  return {stamp.bytes, static_cast<std::int64_t>(version.value() >> 1U) | 1};
}

Result<ObjectStamp> StoredObjects::stamp(const std::string& key, const std::stop_token& stop) {
  {
    const MutexLock lock(mutex_);
    const auto known = stamps_.find(key);
    if (known != stamps_.end()) return known->second;
  }
  ISOCOST_ASSIGN(const ObjectStamp stamp, store_->stamp(prefix_ + key, stop));
  keep(key, stamp);
  return stamp;
}

Result<std::vector<Status>> StoredObjects::stamp_all(std::span<const std::string> keys,
                                                     const std::function<void(std::size_t)>& done,
                                                     const std::stop_token& stop) {
  std::vector<Status> found(keys.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < keys.size() && !stop.stop_requested(); i = next++) {
      auto stamp = this->stamp(keys[i], stop);
      if (!stamp) found[i] = std::move(stamp).error();
      if (done) done(i);
    }
  };
  {
    std::vector<std::jthread> threads(std::min(kMostThreads, keys.size()));
    for (std::jthread& thread : threads) thread = std::jthread(work);
  }
  if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while listing objects");
  return found;
}

Result<std::vector<ListedObject>> StoredObjects::list(std::string_view prefix, bool recursive,
                                                      const std::stop_token& stop) {
  ISOCOST_ASSIGN(std::vector<ListedObject> listed,
                 store_->list(prefix_ + std::string(prefix), recursive, stop));
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
}

}  // namespace isocost
