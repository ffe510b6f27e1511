#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_range.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/file_stamp.h"
#include "loader/dataset/stores/remote/object_store.h"

namespace isocost {

/// Returns what stands for an object's stamp where a file has its own: the size, and for the time a
/// number that differs for objects of different bytes, made of the entity tag, or of the time where
/// there is no tag.
FileStamp file_stamp_of(const ObjectStamp& stamp);

/// The objects of a data set below one address, each with the stamp that it had when it was first
/// asked for. Reads are answered only by an object that has its stamp still. All errors but
/// kNotFound, kUnavailable and kCancelled are kIo: none says that a sample is bad. Internally
/// synchronised.
class StoredObjects {
 public:
  /// `prefix`: the begin of the objects' keys in the store, which their names here leave out.
  /// `server`: the server or the bucket, for metrics. `stop` ends requests without a stop of their
  /// own.
  explicit StoredObjects(std::shared_ptr<ObjectStore> store, std::string prefix = {},
                         std::string server = {}, std::stop_token stop = {})
      : store_(std::move(store)),
        prefix_(std::move(prefix)),
        server_(std::move(server)),
        stop_(std::move(stop)) {}

  /// Returns the name of the server or the bucket: "https://host", "s3://bucket".
  const std::string& server() const { return server_; }
  /// Returns what was asked of it since it was opened, also for objects of other prefixes.
  StoreCounts counts() const { return store_->counts(); }

  /// Returns a stop that was given, or else the one of requests without a stop of their own.
  const std::stop_token& stop_of(const std::stop_token& given) const {
    return given.stop_possible() ? given : stop_;
  }

  /// Reads a range of an object that has this stamp: see ObjectStore::read.
  void read(std::string_view key, const ObjectStamp& stamp, ByteRange range,
            const std::stop_token& stop, ObjectStore::Done done) const;
  /// Has a cache that keeps whole pieces keep an object. Blocks until it has. Errors: those of
  /// `stamp` and `read`.
  Status hold(const std::string& key, const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  /// Returns the stamp of an object; asks the server for it the first time. Blocks. A failure is
  /// kept for a second, so that those who waited for it do not ask one after another. Errors: those
  /// of ObjectStore::stamp.
  Result<ObjectStamp> stamp(const std::string& key, const std::stop_token& stop = {})
      ISOCOST_EXCLUDES(mutex_);
  /// Lists objects, whose stamps are known from then on. Errors: those of ObjectStore::list.
  Result<std::vector<ListedObject>> list(std::string_view prefix, bool recursive,
                                         const std::stop_token& stop) ISOCOST_EXCLUDES(mutex_);
  /// Has the stamp of an object asked for again when it is next needed.
  void forget(const std::string& key) ISOCOST_EXCLUDES(mutex_);

 private:
  struct Failure {
    MonotonicTime at;
    Error error;
  };

  void keep(const std::string& key, const ObjectStamp& stamp) ISOCOST_EXCLUDES(mutex_);
  const std::shared_ptr<ObjectStore> store_;
  const std::string prefix_;
  const std::string server_;
  const std::stop_token stop_;
  Mutex mutex_;
  std::map<std::string, ObjectStamp, std::less<>> stamps_ ISOCOST_GUARDED_BY(mutex_);
  std::map<std::string, Failure, std::less<>> failures_ ISOCOST_GUARDED_BY(mutex_);
};

/// A prefix to list: see ObjectStore::list. Value type.
struct ObjectListing {
  std::string prefix;
  bool is_recursive = false;
  auto operator<=>(const ObjectListing&) const = default;
};

/// Lists several prefixes, up to 16 at once. Blocks. Errors: the first one of StoredObjects::list;
/// kResourceExhausted (over `most` objects in all); kCancelled.
Result<std::vector<std::vector<ListedObject>>> list_at_once(StoredObjects& objects,
                                                            std::span<const ObjectListing> listings,
                                                            std::size_t most,
                                                            const std::stop_token& stop);

/// The name of an object.
struct ObjectName {
  std::shared_ptr<StoredObjects> objects;
  std::string key;
};

/// Asks for the stamps of objects, up to 64 at once, and tells `done` of each, on several threads
/// at once. Returns for each whether it is there. Blocks. Errors: the first one but kNotFound,
/// after which no more are asked for; kCancelled.
Result<std::vector<bool>> ask_for_stamps(std::span<const ObjectName> names,
                                         const std::function<void()>& done,
                                         const std::stop_token& stop);

}  // namespace isocost
