#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/http_message.h"
#include "loader/dataset/stores/s3/internal/credential_keeper.h"
#include "loader/dataset/stores/s3/internal/s3_endpoint.h"
#include "loader/dataset/stores/s3/internal/s3_failure.h"

namespace isocost {

/// A request for a bucket, before it is signed.
struct S3Question {
  std::string method = "GET";
  std::optional<std::string> key = {};  ///< Nothing: the bucket itself is asked.
  std::vector<std::pair<std::string, std::string>> query = {};
  HttpHeaders headers = {};
};

/// The last attempt of a request: what signed it. Written by one attempt at a time.
struct S3Attempt {
  AwsCredentials credentials;
  std::string region;
};

/// Makes the requests for one bucket, signed with the credentials and the region of the moment, and
/// learns from refusals. Thread-safe.
class S3Bucket {
 public:
  /// `keeper` is null for requests without a signature. A region that is empty is found out.
  S3Bucket(std::string name, S3Endpoint endpoint, std::string region, bool requester_pays,
           std::unique_ptr<CredentialKeeper> keeper, LogSink log, WallClock now);

  /// Returns "s3://bucket/key", in printable UTF-8.
  std::string name_of(std::string_view key) const;
  /// Makes the request of an attempt. Blocks while there are no credentials. Errors:
  /// kInvalidArgument (an empty key); those of CredentialKeeper::get, with the object's address.
  Result<HttpRequest> make(const S3Question& question, S3Attempt& attempt,
                           const std::stop_token& stop) const;
  /// Explains a response that is no success. `name` is the object's, for messages.
  S3Failure explain(const std::string& name, const S3Question& question, const S3Attempt& attempt,
                    const HttpResponse& response) const;
  /// Does what a failure asks for. Returns whether the request is to be sent once more.
  bool mend(const S3Failure& failure, const S3Attempt& attempt);

  /// For messages: see S3Endpoint::name.
  std::string endpoint_name() const { return endpoint_.name(); }
  std::int64_t credential_renewals() const { return keeper_ ? keeper_->renewals() : 0; }

 private:
  const std::string name_;
  const S3Endpoint endpoint_;
  const bool requester_pays_;
  const std::unique_ptr<CredentialKeeper> keeper_;
  const LogSink log_;
  const WallClock now_;
  const bool was_region_given_;

  mutable Mutex mutex_;
  std::string region_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
