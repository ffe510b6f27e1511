#include "loader/dataset/stores/s3/internal/container_credentials.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "base/read_file.h"
#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/json_credentials.h"

namespace isocost {
namespace {

constexpr std::string_view kRelative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
constexpr std::string_view kFull = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
constexpr std::string_view kEcsAddress = "http://169.254.170.2";
// ECS, and EKS's Pod Identity.
constexpr std::string_view kKnownHosts[] = {"169.254.170.2", "169.254.170.23", "fd00:ec2::23",
                                            "localhost"};
constexpr std::size_t kMostContainerBytes = std::size_t{64} << 10;

// The host of an address with a scheme, without port and brackets, in lower case. Empty: there is
// none, or a character that another reader of addresses may take for the end of it.
std::string host_of(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
  if (authority.find_first_of("@\\ ") != authority.npos) return "";
  if (authority.starts_with('[')) {
    return lower_ascii(authority.substr(1, authority.find(']') - 1));
  }
  return lower_ascii(authority.substr(0, authority.find(':')));
}

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_safe(std::string_view url) {
  if (!is_header_value(url)) return false;
  if (starts_with_ignoring_case(url, "https://")) return !host_of(url).empty();
  if (!starts_with_ignoring_case(url, "http://")) return false;
  const std::string host = host_of(url);
  return is_loopback(host) || std::ranges::find(kKnownHosts, host) != std::end(kKnownHosts);
}

Result<std::string> authorization(const ContainerEndpoint& endpoint) {
  if (endpoint.token_file.empty()) return endpoint.token;
  const std::string name = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE " + endpoint.token_file.string();
  Result<std::string> token = read_file(name, endpoint.token_file, kMostContainerBytes);
  if (!token) return Error(ErrorCode::kInvalidArgument, token.error().message());
  if (!is_header_value(*token)) {
    return Error(ErrorCode::kInvalidArgument,
                 name + " is empty or has a line break or another control character");
  }
  return token;
}

}  // namespace

bool has_container_endpoint(const AwsEnvironment& environment) {
  return !environment.get(kRelative).empty() || !environment.get(kFull).empty();
}

Result<ContainerEndpoint> container_endpoint(const AwsEnvironment& environment) {
  ContainerEndpoint endpoint;
  endpoint.token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  endpoint.token_file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!endpoint.token.empty() && !is_header_value(endpoint.token)) {
    return Error(ErrorCode::kInvalidArgument,
                 "AWS_CONTAINER_AUTHORIZATION_TOKEN has a control character");
  }
  const std::string_view relative = environment.get(kRelative);
  if (!relative.empty()) {
    // Without its slash it would be the end of another host's name.
    if (!relative.starts_with('/') || !is_header_value(relative)) {
      return Error(ErrorCode::kInvalidArgument, std::string(kRelative) + " must begin with '/'");
    }
    endpoint.url = std::string(kEcsAddress).append(relative);
    return endpoint;
  }
  endpoint.url = environment.get(kFull);
  if (!is_safe(endpoint.url)) {
    return Error(ErrorCode::kInvalidArgument,
                 std::string(kFull) +
                     " must be an address with https://, or with http:// one of this machine or "
                     "169.254.170.2, 169.254.170.23 or [fd00:ec2::23]");
  }
  return endpoint;
}

Result<AwsCredentials> ask_container(const ContainerEndpoint& endpoint, const AskService& ask,
                                     const std::stop_token& stop) {
  const std::string address = endpoint.url.substr(0, endpoint.url.find_first_of("?#"));
  const std::string service = "the container's endpoint " + printable_utf8(address);
  ISOCOST_ASSIGN(const std::string token, authorization(endpoint));
  HttpRequest request{.url = endpoint.url,
                      .name = address,
                      .headers = {{"accept", "application/json"}},
                      .max_body_bytes = kMostContainerBytes,
                      .use_proxy = false};
  if (!token.empty()) request.headers.emplace_back("authorization", token);
  ISOCOST_ASSIGN(const HttpResponse response, ask_patiently(ask, request, stop));
  if (response.status != 200) return refused_by(service, response);
  Result<AwsCredentials> credentials =
      parse_json_credentials(response.body, {.token = "Token", .needs_expiration = true});
  if (!credentials) return std::move(credentials).error().with_context("the answer of " + service);
  return credentials;
}

}  // namespace isocost
