#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/s3/aws_credentials.h"
#include "loader/dataset/stores/s3/internal/ask_service.h"

namespace isocost {

/// A role that a token of another identity provider allows to take, as pods of Kubernetes do.
struct WebIdentity {
  std::filesystem::path token_file;  ///< Read each time, since it is renewed.
  std::string role_arn;
  std::string session_name = "isocost";
  std::string endpoint;  ///< AWS's Security Token Service, such as https://sts.amazonaws.com.
};

/// Asks the Security Token Service for the role's credentials (AssumeRoleWithWebIdentity). Errors:
/// kInvalidArgument for a token that cannot be read; kIo and kUnavailable with the service's own
/// words; kCorrupt; those of `ask`.
Result<AwsCredentials> assume_role(const WebIdentity& identity, const AskService& ask,
                                   const std::stop_token& stop);

}  // namespace isocost
