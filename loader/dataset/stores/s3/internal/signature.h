#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/dataset/stores/remote/http_message.h"
#include "loader/dataset/stores/s3/aws_credentials.h"

namespace isocost {

/// The SHA-256 of no bytes.
inline constexpr std::string_view kEmptyPayloadSha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A path by its segments and a query by its names and values, none of them encoded.
struct RequestTarget {
  std::vector<std::string> path = {};
  std::vector<std::pair<std::string, std::string>> query = {};
};

/// A request to a service of AWS that is to be signed.
struct UnsignedRequest {
  std::string method = "GET";
  std::string host;  ///< The Host header: in lower case, with a port that is not the usual.
  RequestTarget target = {};
  /// Those that the signature is to cover. Not among them: Host, Authorization, X-Amz-Date,
  /// X-Amz-Content-Sha256, X-Amz-Security-Token.
  HttpHeaders headers = {};
  std::string payload_sha256 = std::string(kEmptyPayloadSha256);
};

struct SigningScope {
  std::string region;
  std::string service = "s3";
  std::chrono::sys_seconds time;
};

struct Signature {
  std::string canonical_request;  ///< It has the session token. For tests.
  HttpHeaders headers;  ///< To be added to the request: Authorization and those it relies on.
};

/// Returns "/a%20b/c?d=e": the target as it is sent, so that its signature holds.
std::string encoded_target(const RequestTarget& target);

/// Signs a request with AWS's signature version 4, in the Authorization header. A path in S3 is
/// encoded once and taken as it is. Those of other services lose their dots and empty segments, and
/// are encoded twice. Pure.
Signature sign_request(const UnsignedRequest& request, const SigningScope& scope,
                       const AwsCredentials& credentials);

}  // namespace isocost
