#include "loader/dataset/stores/stores.h"

#include <fmt/format.h>

#include <utility>

#include "loader/dataset/stores/remote/http_client.h"
#include "loader/dataset/stores/remote/http_store.h"
#include "loader/dataset/stores/s3/s3_store.h"

namespace isocost {
namespace {

std::string http_root(const ObjectAddress& address) {
  return fmt::format("{}://{}{}{}/{}{}{}", address.scheme, address.user,
                     address.user.empty() ? "" : "@", address.host, address.path,
                     address.query.empty() ? "" : "?", address.query);
}

// Has a store keep the client that it uses.
std::shared_ptr<ObjectStore> with_client(std::unique_ptr<ObjectStore> store,
                                         std::shared_ptr<HttpClient> client) {
  return {store.release(), [client = std::move(client)](ObjectStore* held) { delete held; }};
}

}  // namespace

Stores::Stores(StoreOptions options) : options_(std::move(options)) {}
Stores::~Stores() = default;

Result<std::shared_ptr<StoredObjects>> Stores::open(const ObjectAddress& directory) {
  ISOCOST_ASSIGN(std::shared_ptr<HttpClient> client, this->client());
  const RequestSenderOptions sending{.log = options_.log};
  if (directory.is_s3()) {
    ISOCOST_ASSIGN(auto store, create_s3_store(directory.host, {}, *client, sending));
    return std::make_shared<StoredObjects>(with_client(std::move(store), std::move(client)),
                                           directory.path);
  }
  ISOCOST_ASSIGN(auto store, create_http_store(http_root(directory), *client, sending));
  return std::make_shared<StoredObjects>(with_client(std::move(store), std::move(client)));
}

// One for all stores, made when the first one is opened.
Result<std::shared_ptr<HttpClient>> Stores::client() {
  const MutexLock lock(mutex_);
  if (client_) return client_;
  ISOCOST_ASSIGN(std::shared_ptr<HttpClient> client,
                 HttpClient::create({.ca_file = options_.ca_file}));
  client_ = std::move(client);
  return client_;
}

}  // namespace isocost
