#include "loader/dataset/stores/s3/internal/instance_credentials.h"

#include <cstddef>
#include <string_view>

#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/json_credentials.h"
#include "loader/dataset/stores/s3/internal/percent_encoding.h"

namespace isocost {
namespace {

constexpr std::string_view kRoles = "/latest/meta-data/iam/security-credentials/";
constexpr std::size_t kMostMetadataBytes = std::size_t{64} << 10;

HttpRequest metadata_request(const std::string& address, std::string_view path) {
  const std::string url = address + std::string(path);
  return {.url = url, .name = url, .max_body_bytes = kMostMetadataBytes, .use_proxy = false};
}

// A token for six hours, the longest there is.
Result<std::string> session_token(const std::string& address, const AskService& ask,
                                  const std::stop_token& stop) {
  HttpRequest request = metadata_request(address, "/latest/api/token");
  request.method = "PUT";
  request.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  ISOCOST_ASSIGN(HttpResponse response, ask_patiently(ask, request, stop));
  if (response.status != 200 || !is_header_value(response.body)) {
    return refused_by("it does not give a token, which version 2 of its protocol needs: it",
                      response);
  }
  return std::move(response.body);
}

// The first line of the answer.
Result<std::string> role_name(const HttpRequest& request, const AskService& ask,
                              const std::stop_token& stop) {
  ISOCOST_ASSIGN(const HttpResponse response, ask_patiently(ask, request, stop));
  if (response.status == 404) return Error(ErrorCode::kNotFound, "this machine has no role");
  if (response.status != 200) return refused_by("it", response);
  std::string role = response.body.substr(0, response.body.find_first_of("\r\n"));
  if (role.empty()) return Error(ErrorCode::kNotFound, "this machine has no role");
  return role;
}

Result<AwsCredentials> ask_for_role(const std::string& address, const AskService& ask,
                                    const std::stop_token& stop) {
  ISOCOST_ASSIGN(const std::string token, session_token(address, ask, stop));
  HttpRequest request = metadata_request(address, kRoles);
  request.headers = {{"x-aws-ec2-metadata-token", token}};
  ISOCOST_ASSIGN(const std::string role, role_name(request, ask, stop));
  request.url += percent_encoded(role);
  request.name = request.url;
  ISOCOST_ASSIGN(const HttpResponse response, ask_patiently(ask, request, stop));
  if (response.status != 200) return refused_by("it", response);
  Result<AwsCredentials> credentials =
      parse_json_credentials(response.body, {.token = "Token", .needs_expiration = true});
  if (!credentials) {
    return std::move(credentials)
        .error()
        .with_context("its answer for the role " + printable_utf8(role.substr(0, 64)));
  }
  return credentials;
}

}  // namespace

bool is_instance_metadata_disabled(const AwsEnvironment& environment) {
  return lower_ascii(environment.get("AWS_EC2_METADATA_DISABLED")) == "true";
}

std::string instance_metadata_address(const AwsEnvironment& environment) {
  std::string address(environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"));
  while (address.ends_with('/')) address.pop_back();
  if (!address.empty()) return address;
  const std::string mode = lower_ascii(environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"));
  return mode == "ipv6" ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

Result<AwsCredentials> ask_instance(const std::string& address, const AskService& ask,
                                    const std::stop_token& stop) {
  Result<AwsCredentials> credentials = ask_for_role(address, ask, stop);
  if (!credentials) {
    return std::move(credentials).error().with_context("the instance metadata at " + address);
  }
  return credentials;
}

}  // namespace isocost
