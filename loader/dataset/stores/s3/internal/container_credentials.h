#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "loader/dataset/stores/s3/aws_credentials.h"
#include "loader/dataset/stores/s3/aws_environment.h"
#include "loader/dataset/stores/s3/internal/ask_service.h"

namespace isocost {

/// The endpoint that gives a container its credentials, in ECS and in EKS's Pod Identity.
struct ContainerEndpoint {
  std::string url;
  std::string token;                 ///< For the header Authorization; empty: none.
  std::filesystem::path token_file;  ///< Read each time, instead of `token`; empty: none.
};

/// Returns whether the environment names an endpoint.
bool has_container_endpoint(const AwsEnvironment& environment);

/// Returns the endpoint of AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, else of ..._FULL_URI. Errors:
/// kInvalidArgument for an address that others could answer: one without TLS that is neither this
/// machine's nor one of the addresses of ECS and EKS.
Result<ContainerEndpoint> container_endpoint(const AwsEnvironment& environment);

/// Asks the endpoint. Errors: kInvalidArgument for a token that cannot be read or sent; kIo and
/// kUnavailable for a refusal; kCorrupt; those of `ask`.
Result<AwsCredentials> ask_container(const ContainerEndpoint& endpoint, const AskService& ask,
                                     const std::stop_token& stop);

}  // namespace isocost
