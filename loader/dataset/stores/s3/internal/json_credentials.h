#pragma once

#include <string_view>

#include "base/result.h"
#include "loader/dataset/stores/s3/aws_credentials.h"

namespace isocost {

/// Names of the members of a JSON object that has credentials.
struct JsonCredentialNames {
  std::string_view token;  ///< "Token" or "SessionToken".
  bool needs_expiration = false;
  bool has_version = false;  ///< "Version" must be 1.
};

/// Parses credentials in JSON. Errors: kCorrupt, which show nothing of the text, as a predicate:
/// "is not ...".
Result<AwsCredentials> parse_json_credentials(std::string_view text,
                                              const JsonCredentialNames& names);

/// Checks that credentials have both keys, and nothing that cannot stand in a header. Errors:
/// kInvalidArgument, as a predicate: "has no secret access key".
Status check_credentials(const AwsCredentials& credentials);

}  // namespace isocost
