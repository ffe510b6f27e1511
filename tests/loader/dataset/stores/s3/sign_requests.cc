// Signs requests that stand in standard input, one JSON object a line, and writes for each its
// target, canonical request and Authorization header. botocore_signature_test.py compares them.
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "loader/dataset/stores/s3/internal/digest.h"
#include "loader/dataset/stores/s3/internal/signature.h"

namespace {

using nlohmann::json;

json signed_as_json(const json& wanted) {
  isocost::UnsignedRequest request{.method = wanted.at("method"), .host = wanted.at("host")};
  wanted.at("path").get_to(request.target.path);
  wanted.at("query").get_to(request.target.query);
  wanted.at("headers").get_to(request.headers);
  request.payload_sha256 = isocost::sha256_hex(wanted.at("body").get<std::string>());
  const isocost::SigningScope scope{
      .region = wanted.at("region"),
      .service = wanted.at("service"),
      .time =
          std::chrono::sys_seconds(std::chrono::seconds(wanted.at("time_s").get<std::int64_t>()))};
  const isocost::AwsCredentials credentials{.access_key_id = wanted.at("access_key_id"),
                                            .secret_access_key = wanted.at("secret_access_key"),
                                            .session_token = wanted.at("session_token")};
  const isocost::Signature signature = sign_request(request, scope, credentials);
  return {{"target", encoded_target(request.target)},
          {"canonical_request", signature.canonical_request},
          {"authorization", signature.headers.back().second}};
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << signed_as_json(json::parse(line)) << "\n";
}
