#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/byte_range.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/object_store.h"

namespace isocost {

/// Objects in memory that answer after a while, in the order of the requests, and count them.
/// Thread-safe.
class SlowStore final : public ObjectStore {
 public:
  explicit SlowStore(std::chrono::milliseconds latency = {}) : latency_(latency) {}

  /// Stores an object, as another version than the one before.
  void put(const std::string& key, std::string bytes) ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Object& object = objects_[key];
    object.etag = "\"" + std::to_string(++versions_) + "\"";
    object.bytes = std::move(bytes);
  }
  void remove(const std::string& key) ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    objects_.erase(key);
  }
  /// Has the next reads fail.
  void refuse_reads(int count) ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    refused_reads_ = count;
  }
  /// Returns the ranges that were read, in their order.
  std::vector<ByteRange> reads() const ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return reads_;
  }
  std::size_t stamps() const ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return stamps_;
  }

  std::string name_of(std::string_view key) const override { return "slow://" + std::string(key); }
  Result<ObjectStamp> stamp(std::string_view key, const std::stop_token& /*stop*/) override
      ISOCOST_EXCLUDES(mutex_) {
    std::this_thread::sleep_for(latency_);
    const MutexLock lock(mutex_);
    ++stamps_;
    const auto found = objects_.find(key);
    if (found == objects_.end()) return Error(ErrorCode::kNotFound, name_of(key) + ": absent");
    return stamp_of(found->second);
  }
  Result<std::vector<ListedObject>> list(std::string_view prefix, bool recursive,
                                         const std::stop_token& /*stop*/) override
      ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::vector<ListedObject> listed;
    for (const auto& [key, object] : objects_) {
      if (!key.starts_with(prefix)) continue;
      if (!recursive && key.find('/', prefix.size()) != std::string::npos) continue;
      listed.push_back({key, stamp_of(object)});
    }
    return listed;
  }
  void read(std::string_view key, const ObjectStamp& stamp, ByteRange range, std::stop_token stop,
            Done done) override ISOCOST_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      reads_.push_back(range);
      pending_.push_back({std::chrono::steady_clock::now() + latency_, std::string(key), stamp,
                          range, std::move(stop), std::move(done)});
    }
    changed_.notify_all();
  }

  StoreCounts counts() const override ISOCOST_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return {.sent = {.requests = static_cast<std::int64_t>(reads_.size() + stamps_)}};
  }

 private:
  struct Object {
    std::string etag;
    std::string bytes;
  };
  struct Pending {
    std::chrono::steady_clock::time_point due;
    std::string key;
    ObjectStamp stamp;
    ByteRange range;
    std::stop_token stop;
    Done done;
  };
  static ObjectStamp stamp_of(const Object& object) {
    return {static_cast<std::int64_t>(object.bytes.size()), object.etag, 0};
  }

  Result<std::string> answer(const Pending& pending) ISOCOST_REQUIRES(mutex_) {
    if (pending.stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped");
    if (refused_reads_ > 0) {
      --refused_reads_;
      return Error(ErrorCode::kUnavailable, name_of(pending.key) + ": no answer");
    }
    const auto found = objects_.find(pending.key);
    if (found == objects_.end()) {
      return Error(ErrorCode::kNotFound, name_of(pending.key) + ": absent");
    }
    if (stamp_of(found->second) != pending.stamp) {
      return Error(ErrorCode::kUnavailable, name_of(pending.key) + ": has changed");
    }
    return found->second.bytes.substr(static_cast<std::size_t>(pending.range.begin),
                                      static_cast<std::size_t>(pending.range.bytes()));
  }

  // Answers requests when they are due, and at the end all that are left.
  void serve(const std::stop_token& ending) ISOCOST_EXCLUDES(mutex_) {
    for (;;) {
      std::optional<Pending> next;
      std::optional<Result<std::string>> answered;
      {
        const MutexLock lock(mutex_);
        changed_.wait(mutex_, ending,
                      [this]() ISOCOST_REQUIRES(mutex_) { return !pending_.empty(); });
        if (pending_.empty()) return;
        // Looked at again and again, since a stop tells nobody here.
        const auto is_over = [this, &ending]() ISOCOST_REQUIRES(mutex_) {
          const Pending& first = pending_.front();
          return ending.stop_requested() || first.stop.stop_requested() ||
                 std::chrono::steady_clock::now() >= first.due;
        };
        while (!is_over()) {
          changed_.wait_for(mutex_, ending, std::chrono::milliseconds(1), [] { return false; });
        }
        next = std::move(pending_.front());
        pending_.pop_front();
        answered = answer(*next);
      }
      next->done(*std::move(answered));
    }
  }

  const std::chrono::milliseconds latency_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, Object, std::less<>> objects_ ISOCOST_GUARDED_BY(mutex_);
  std::deque<Pending> pending_ ISOCOST_GUARDED_BY(mutex_);
  std::vector<ByteRange> reads_ ISOCOST_GUARDED_BY(mutex_);
  std::size_t stamps_ ISOCOST_GUARDED_BY(mutex_) = 0;
  int versions_ ISOCOST_GUARDED_BY(mutex_) = 0;
  int refused_reads_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::jthread server_{[this](const std::stop_token& ending) { serve(ending); }};
};

}  // namespace isocost
