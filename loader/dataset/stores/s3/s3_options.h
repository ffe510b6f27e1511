#pragma once

#include <optional>
#include <string>

#include "loader/dataset/stores/s3/aws_credentials.h"
#include "loader/dataset/stores/s3/aws_environment.h"

namespace isocost {

/// How buckets are reached. What an option leaves open, the environment and the files that AWS's
/// tools share decide.
struct S3Options {
  /// Address of another store with the interface of S3, such as "http://minio:9000". Empty: that of
  /// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile, else AWS itself.
  std::string endpoint = {};
  /// Empty: that of AWS_REGION, AWS_DEFAULT_REGION or the profile, else the bucket's own, which the
  /// server names when it is asked first.
  std::string region = {};
  /// Empty: that of AWS_PROFILE, else "default". Where it is given, keys and roles of environment
  /// variables do not count.
  std::string profile = {};
  /// Keys that come before all others.
  std::optional<AwsCredentials> credentials = {};
  /// Sends requests without a signature, for public buckets. ISOCOST_S3_ANONYMOUS=1 does it, too:
  /// AWS has no variable for it.
  bool anonymous = false;
  /// Agrees to be charged for requests, as buckets whose owners do not pay for them ask for.
  bool requester_pays = false;
  AwsEnvironment environment = process_environment();
};

}  // namespace isocost
