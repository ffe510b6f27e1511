#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/cache/object_cache.h"
#include "loader/dataset/stores/object_address.h"
#include "loader/dataset/stores/stored_objects.h"

namespace isocost {

class HttpClient;
class ObjectStore;
class RequestSender;

/// How servers are reached.
struct StoreOptions {
  /// File of the certificates that servers' are checked against; empty: see HttpClientOptions.
  std::string ca_file = {};
  /// Directory of a cache of what servers send: see ObjectCache. Empty: none.
  std::filesystem::path cache = {};
  std::int64_t cache_size = ObjectCacheOptions{}.max_bytes;
  LogSink log = {};
  std::stop_token stop = {};  ///< Ends requests that have no stop of their own.
};

/// Opens stores, which share one client and one cache. Internally synchronised. The stores may
/// outlive it.
class Stores {
 public:
  explicit Stores(StoreOptions options);
  ~Stores();
  Stores(const Stores&) = delete;
  Stores& operator=(const Stores&) = delete;

  /// Returns the objects below a directory: the address's path, which is empty or ends with '/'.
  /// Their keys begin there. Errors: those of HttpClient::create, create_http_store and
  /// ObjectCache::open.
  Result<std::shared_ptr<StoredObjects>> open(const ObjectAddress& directory)
      ISOCOST_EXCLUDES(mutex_);
  /// Returns the cache of the stores that were opened; null: none of them has one.
  std::shared_ptr<ObjectCache> opened_cache() const ISOCOST_EXCLUDES(mutex_);

 private:
  Result<std::shared_ptr<StoredObjects>> make(const ObjectAddress& directory,
                                              const std::shared_ptr<ObjectCache>& cache)
      ISOCOST_REQUIRES(mutex_);
  Result<std::shared_ptr<HttpClient>> client() ISOCOST_REQUIRES(mutex_);
  Result<std::shared_ptr<ObjectCache>> cache() ISOCOST_EXCLUDES(mutex_);

  const StoreOptions options_;
  mutable Mutex mutex_;
  std::shared_ptr<HttpClient> client_ ISOCOST_GUARDED_BY(mutex_);
  // One for each server: its requests in flight are counted together.
  std::map<std::string, std::shared_ptr<RequestSender>> senders_ ISOCOST_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<ObjectStore>> buckets_ ISOCOST_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<StoredObjects>> opened_
      ISOCOST_GUARDED_BY(mutex_);  // by address, with its secrets
  std::shared_ptr<ObjectCache> cache_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
