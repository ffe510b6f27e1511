#include "loader/dataset/stores/stores.h"

#include <fmt/format.h>

#include <utility>

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

}  // namespace

Stores::Stores(StoreOptions options) : options_(std::move(options)) {}
Stores::~Stores() = default;

Result<std::shared_ptr<StoredObjects>> Stores::open(const ObjectAddress& directory) {
  const MutexLock lock(mutex_);
  std::shared_ptr<StoredObjects>& opened = opened_[whole_address(directory)];
  if (!opened) {
    ISOCOST_ASSIGN(opened, make(directory));
  }
  return opened;
}

Result<std::shared_ptr<StoredObjects>> Stores::make(const ObjectAddress& directory) {
  ISOCOST_ASSIGN(const std::shared_ptr<HttpClient> client, this->client());
  const std::string server = fmt::format("{}://{}", directory.scheme, directory.host);
  const RequestSenderOptions sending{.log = options_.log};
  if (directory.is_s3()) {
    std::shared_ptr<ObjectStore>& bucket = buckets_[server];
    if (!bucket) {
      ISOCOST_ASSIGN(auto store, create_s3_store(directory.host, {}, *client, sending));
      bucket = with_client(std::move(store), client);
    }
    return std::make_shared<StoredObjects>(bucket, directory.path, server, options_.stop);
  }
  std::shared_ptr<RequestSender>& sender = senders_[server];
  if (!sender) sender = with_client(RequestSender::create(*client, sending), client);
  ISOCOST_ASSIGN(std::shared_ptr<ObjectStore> store,
                 create_http_store(whole_address(directory), sender));
  return std::make_shared<StoredObjects>(std::move(store), "", server, options_.stop);
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
