#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/stores/s3/internal/shared_profile.h"
#include "loader/dataset/stores/s3/s3_options.h"

namespace isocost {

/// An address that is configured, and by what, for messages: "AWS_ENDPOINT_URL".
struct ConfiguredEndpoint {
  std::string address;
  std::string source;
};

/// Returns the endpoint that is configured for a service of AWS, such as "S3": that of
/// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's services, or the profile. Empty: none is.
ConfiguredEndpoint configured_endpoint(const AwsEnvironment& environment,
                                       const SharedProfile& profile, std::string_view service);

/// Returns the region of AWS_REGION, AWS_DEFAULT_REGION or the profile. Empty: none is configured.
std::string configured_region(const AwsEnvironment& environment, const SharedProfile& profile);

/// Checks the name of a bucket by AWS's rules, or by those of other stores, which take more.
/// Errors: kInvalidArgument.
Status check_bucket_name(std::string_view bucket, bool is_on_aws);

/// The place to which requests for a bucket go.
struct BucketPlace {
  std::string origin;             ///< Scheme and host, such as "https://b.s3.amazonaws.com".
  std::string host;               ///< The Host header.
  std::vector<std::string> path;  ///< Segments that stand before the key's.
};

/// The endpoint of one bucket: AWS's in a region, or that of another store. Immutable.
class S3Endpoint {
 public:
  /// Errors: kInvalidArgument for an endpoint that is no address, and for a bucket's name.
  static Result<S3Endpoint> create(const S3Options& options, const SharedProfile& profile,
                                   const std::string& bucket);

  /// Returns the place of the bucket in a region, by the bucket's own host on AWS, and by its name
  /// in the path elsewhere and where the name has dots, which no certificate fits.
  BucketPlace place(std::string_view region) const;
  /// For messages: "AWS", or the endpoint's address and what configured it, such as
  /// "http://minio:9000 (AWS_ENDPOINT_URL)".
  std::string name() const;

 private:
  S3Endpoint() = default;
  Status take_address(std::string_view address);

  std::string bucket_;
  bool is_on_aws_ = true;
  std::string service_ = "s3";  ///< In AWS's hosts: also "s3-fips", "s3.dualstack".
  // Those of another store.
  std::string source_;  ///< The variable or the profile; empty: an option.
  std::string origin_;
  std::string host_;
  std::vector<std::string> path_;
};

}  // namespace isocost
