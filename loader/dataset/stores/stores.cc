#include "loader/dataset/stores/stores.h"

#include <fmt/format.h>

#include <utility>

#include "loader/dataset/stores/cache/cached_store.h"
#include "loader/dataset/stores/remote/http_client.h"
#include "loader/dataset/stores/remote/http_store.h"
#include "loader/dataset/stores/s3/s3_store.h"

namespace isocost {
namespace {

std::string whole_address(const ObjectAddress& address) {
  return fmt::format("{}://{}{}{}/{}{}{}", address.scheme, address.user,
                     address.user.empty() ? "" : "@", address.host, address.path,
                     address.query.empty() ? "" : "?", address.query);
}

// Has what uses the client keep it.
template <typename T>
std::shared_ptr<T> with_client(std::unique_ptr<T> user, std::shared_ptr<HttpClient> client) {
  return {user.release(), [client = std::move(client)](T* held) { delete held; }};
}

// Puts the cache before a store, if there is one.
std::shared_ptr<ObjectStore> cached(std::shared_ptr<ObjectStore> store,
                                    const std::shared_ptr<ObjectCache>& cache) {
  return cache ? create_cached_store(std::move(store), cache) : store;
}

}  // namespace

Stores::Stores(StoreOptions options) : options_(std::move(options)) {}
Stores::~Stores() = default;

Result<std::shared_ptr<StoredObjects>> Stores::open(const ObjectAddress& directory) {
  ISOCOST_ASSIGN(const std::shared_ptr<ObjectCache> cache, this->cache());
  const MutexLock lock(mutex_);
  std::shared_ptr<StoredObjects>& opened = opened_[whole_address(directory)];
  if (!opened) {
    ISOCOST_ASSIGN(opened, make(directory, cache));
  }
  return opened;
}

Result<std::shared_ptr<StoredObjects>> Stores::make(const ObjectAddress& directory,
                                                    const std::shared_ptr<ObjectCache>& cache) {
  ISOCOST_ASSIGN(const std::shared_ptr<HttpClient> client, this->client());
  const std::string server = fmt::format("{}://{}", directory.scheme, directory.host);
  const RequestSenderOptions sending{.log = options_.log};
  if (directory.is_s3()) {
    std::shared_ptr<ObjectStore>& bucket = buckets_[server];
    if (!bucket) {
      ISOCOST_ASSIGN(auto store, create_s3_store(directory.host, {}, *client, sending));
      bucket = cached(with_client(std::move(store), client), cache);
    }
    return std::make_shared<StoredObjects>(bucket, directory.path, server, options_.stop);
  }
  std::shared_ptr<RequestSender>& sender = senders_[server];
  if (!sender) sender = with_client(RequestSender::create(*client, sending), client);
  ISOCOST_ASSIGN(std::shared_ptr<ObjectStore> store,
                 create_http_store(whole_address(directory), sender));
  return std::make_shared<StoredObjects>(cached(std::move(store), cache), "", server,
                                         options_.stop);
}

std::shared_ptr<ObjectCache> Stores::opened_cache() const {
  const MutexLock lock(mutex_);
  return cache_;
}

// One for all stores, opened with the first one; null: there is to be none. It may log, and so is
// opened outside of the lock.
Result<std::shared_ptr<ObjectCache>> Stores::cache() {
  if (options_.cache.empty()) return std::shared_ptr<ObjectCache>();
  {
    const MutexLock lock(mutex_);
    if (cache_) return cache_;
  }
  ISOCOST_ASSIGN(
      std::shared_ptr<ObjectCache> opened,
      ObjectCache::open(
          {.directory = options_.cache, .max_bytes = options_.cache_size, .log = options_.log}));
  const MutexLock lock(mutex_);
  if (!cache_) cache_ = opened;
  return cache_;
}

// One for all stores, made when the first one is opened.
Result<std::shared_ptr<HttpClient>> Stores::client() {
  if (client_) return client_;
  ISOCOST_ASSIGN(std::shared_ptr<HttpClient> client,
                 HttpClient::create({.ca_file = options_.ca_file}));
  client_ = std::move(client);
  return client_;
}

}  // namespace isocost
