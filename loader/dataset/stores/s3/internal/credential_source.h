#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/s3/aws_credentials.h"
#include "loader/dataset/stores/s3/internal/ask_service.h"
#include "loader/dataset/stores/s3/internal/shared_profile.h"
#include "loader/dataset/stores/s3/s3_options.h"

namespace isocost {

/// A source of credentials.
struct CredentialSource {
  /// For messages, such as "profile 'default' of ~/.aws/credentials". Empty: no credentials are
  /// wanted.
  std::string name;
  /// Fetches them. May block, for as long as a service or a program takes.
  std::function<Result<AwsCredentials>(const std::stop_token&)> fetch;
};

/// Returns the first source that is configured, in botocore's order: keys of the options, of the
/// environment; a web identity; the shared files' profile with its keys or its credential_process;
/// a container's endpoint; the instance's metadata. Asks none of them. Errors: kInvalidArgument for
/// half of a pair of keys, and for a profile of a kind that is not read (single sign-on, a role of
/// another profile), with a remedy.
Result<CredentialSource> find_credential_source(const S3Options& options,
                                                const SharedProfile& profile,
                                                const AskService& ask);

}  // namespace isocost
