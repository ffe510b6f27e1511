#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/remote/object_store.h"
#include "loader/dataset/stores/remote/request_sender.h"

namespace isocost {

/// Returns the objects below an address of a plain HTTP server, such as "https://host/shards/". A
/// key is a path from there; the empty key is the address itself. The address's query (a presigned
/// one) and user are sent with each request and are in no name. The store cannot list. `sender` is
/// that of the server, which its stores share. A store's reads may end after the store has, and
/// before its sender has. Errors: kInvalidArgument (an address that is none).
Result<std::unique_ptr<ObjectStore>> create_http_store(const std::string& root,
                                                       std::shared_ptr<RequestSender> sender);

}  // namespace isocost
