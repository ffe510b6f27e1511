#pragma once

#include <stop_token>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/s3/aws_credentials.h"
#include "loader/dataset/stores/s3/aws_environment.h"
#include "loader/dataset/stores/s3/internal/ask_service.h"

namespace isocost {

/// Returns whether AWS_EC2_METADATA_DISABLED forbids asking the instance's metadata.
bool is_instance_metadata_disabled(const AwsEnvironment& environment);

/// Returns the address of the instance's metadata, without a slash at its end: that of
/// AWS_EC2_METADATA_SERVICE_ENDPOINT, else the well-known one of IPv4, or of IPv6 where
/// AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE says so.
std::string instance_metadata_address(const AwsEnvironment& environment);

/// Asks the metadata of a virtual machine for the credentials of its role, by version 2 of its
/// protocol: a token first, which programs on other machines cannot get. Errors: kIo and
/// kUnavailable for a refusal; kNotFound for a machine without a role; kCorrupt; those of `ask`.
Result<AwsCredentials> ask_instance(const std::string& address, const AskService& ask,
                                    const std::stop_token& stop);

}  // namespace isocost
