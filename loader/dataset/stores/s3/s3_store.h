#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/remote/http_client.h"
#include "loader/dataset/stores/remote/object_store.h"
#include "loader/dataset/stores/remote/request_sender.h"
#include "loader/dataset/stores/s3/s3_options.h"

namespace isocost {

/// Returns the objects of a bucket in S3, or in another store with its interface, by their keys.
/// Sends nothing yet. Its `list` leaves out keys that end in '/', which tools make for folders.
/// Objects under access control are an error kIo, also where they do not exist: a store hides that
/// from those who may not list the bucket. `client` must outlive the store. Errors:
/// kInvalidArgument for a bucket's name, an endpoint, a region, a profile or keys that cannot be,
/// and where no credentials are configured.
Result<std::unique_ptr<ObjectStore>> create_s3_store(const std::string& bucket,
                                                     const S3Options& options, HttpClient& client,
                                                     const RequestSenderOptions& sending = {});

}  // namespace isocost
