#include "loader/dataset/stores/s3/internal/web_identity.h"

#include <cstddef>

#include "base/read_file.h"
#include "loader/dataset/stores/s3/internal/json_credentials.h"
#include "loader/dataset/stores/s3/internal/percent_encoding.h"
#include "loader/dataset/stores/s3/internal/time_text.h"
#include "loader/dataset/stores/s3/internal/xml.h"

namespace isocost {
namespace {

constexpr std::size_t kMostTokenBytes = std::size_t{64} << 10;

Result<std::string> read_token(const std::filesystem::path& file) {
  Result<std::string> token =
      read_file("the web identity token " + file.string(), file, kMostTokenBytes);
  if (!token) return Error(ErrorCode::kInvalidArgument, token.error().message());
  const std::size_t end = token->find_last_not_of(" \r\n\t");
  token->resize(end == std::string::npos ? 0 : end + 1);
  if (token->empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "the web identity token " + file.string() + " is empty");
  }
  return token;
}

Result<AwsCredentials> credentials_of(std::string_view body) {
  ISOCOST_ASSIGN(const XmlElement root, parse_xml(body, {.max_bytes = kMostTokenBytes}));
  const XmlElement* result = root.child("AssumeRoleWithWebIdentityResult");
  const XmlElement* given = result == nullptr ? nullptr : result->child("Credentials");
  if (given == nullptr) return Error(ErrorCode::kCorrupt, "has no credentials");
  AwsCredentials credentials{.access_key_id = std::string(given->text_of("AccessKeyId")),
                             .secret_access_key = std::string(given->text_of("SecretAccessKey")),
                             .session_token = std::string(given->text_of("SessionToken")),
                             .expires = parse_iso8601(given->text_of("Expiration"))};
  if (!credentials.expires) return Error(ErrorCode::kCorrupt, "has no time of expiration");
  ISOCOST_TRY(check_credentials(credentials));
  return credentials;
}

}  // namespace

Result<AwsCredentials> assume_role(const WebIdentity& identity, const AskService& ask,
                                   const std::stop_token& stop) {
  ISOCOST_ASSIGN(const std::string token, read_token(identity.token_file));
  const std::string service = "the Security Token Service at " + identity.endpoint;
  HttpRequest request{.method = "POST",
                      .url = identity.endpoint + "/",
                      .name = identity.endpoint,
                      .max_body_bytes = kMostTokenBytes};
  request.headers = {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"}};
  request.body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" +
                 percent_encoded(identity.role_arn) +
                 "&RoleSessionName=" + percent_encoded(identity.session_name) +
                 "&WebIdentityToken=" + percent_encoded(token);
  ISOCOST_ASSIGN(const HttpResponse response, ask_patiently(ask, request, stop));
  if (response.status != 200) {
    return refused_by(service, response)
        .with_context("the role " + identity.role_arn + " cannot be taken");
  }
  Result<AwsCredentials> credentials = credentials_of(response.body);
  if (!credentials) return std::move(credentials).error().with_context("the answer of " + service);
  return credentials;
}

}  // namespace isocost
