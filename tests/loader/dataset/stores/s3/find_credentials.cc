// Says for environments that stand in standard input, one JSON object of variables a line, where
// credentials come from and, for those that are fixed, the access key ID. botocore_order_test.py
// compares it.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "loader/dataset/stores/s3/internal/credential_source.h"

namespace {

using nlohmann::json;

isocost::Result<std::string> source_of(const json& variables) {
  isocost::S3Options options{.environment = {}};
  for (const auto& [name, value] : variables.items()) {
    options.environment.variables[name] = value.get<std::string>();
  }
  ISOCOST_ASSIGN(const isocost::SharedProfile profile,
                 isocost::read_shared_profile(options.environment, options.profile));
  bool has_asked = false;
  const isocost::AskService ask = [&](const isocost::HttpRequest&, const std::stop_token&) {
    has_asked = true;
    return isocost::Result<isocost::HttpResponse>(
        isocost::Error(isocost::ErrorCode::kUnavailable, "not asked here"));
  };
  ISOCOST_ASSIGN(const isocost::CredentialSource source,
                 isocost::find_credential_source(options, profile, ask));
  const isocost::Result<isocost::AwsCredentials> credentials = source.fetch({});
  if (credentials) return source.name + "\n" + credentials->access_key_id;
  if (has_asked || source.name.starts_with("the web identity")) return source.name;
  return credentials.error();
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const isocost::Result<std::string> source = source_of(json::parse(line));
    std::cout << json(source ? *source : "error: " + source.error().message()) << "\n";
  }
}
