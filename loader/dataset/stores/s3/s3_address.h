#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// The parts of an address such as "s3://bucket/shards/0.tar". A key is taken as it stands: nothing
/// in it is decoded.
struct S3Address {
  std::string bucket;
  std::string key;  ///< Without the slash behind the bucket; empty: the bucket's root.
};

/// Returns whether a text begins with "s3://", in whatever case.
bool is_s3_address(std::string_view text);

/// Splits an address into its bucket and key. Errors: kInvalidArgument for a text that does not
/// begin with "s3://", and for a bucket that is an ARN or empty.
Result<S3Address> parse_s3_address(std::string_view text);

}  // namespace isocost
