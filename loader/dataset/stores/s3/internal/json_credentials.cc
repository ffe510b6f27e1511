#include "loader/dataset/stores/s3/internal/json_credentials.h"

#include <cstddef>

#include "base/json_object.h"
#include "loader/dataset/stores/s3/internal/ask_service.h"
#include "loader/dataset/stores/s3/internal/time_text.h"

namespace isocost {
namespace {

constexpr JsonFormat kFormat{.name = "credentials", .max_bytes = std::size_t{64} << 10};

Error not_credentials(const std::string& why) {
  return {ErrorCode::kCorrupt, "is not credentials: " + why};
}

}  // namespace

Result<AwsCredentials> parse_json_credentials(std::string_view text,
                                              const JsonCredentialNames& names) {
  const Result<JsonObject> object = JsonObject::parse(text, kFormat);
  // The parser's message has a piece of the text.
  if (!object) return not_credentials("it is no JSON object of at most 64 KiB");
  if (names.has_version && !object->whole("Version", 1, 1)) {
    return not_credentials("its 'Version' is not 1");
  }
  AwsCredentials credentials;
  ISOCOST_ASSIGN(credentials.access_key_id, object->text("AccessKeyId"));
  ISOCOST_ASSIGN(credentials.secret_access_key, object->text("SecretAccessKey"));
  ISOCOST_ASSIGN(credentials.session_token, object->optional_text(names.token));
  ISOCOST_ASSIGN(const std::string expiration, object->optional_text("Expiration"));
  if (!expiration.empty()) {
    credentials.expires = parse_iso8601(expiration);
    if (!credentials.expires) return not_credentials("its 'Expiration' is no time of ISO 8601");
  }
  if (names.needs_expiration && !credentials.expires) {
    return not_credentials("it has no 'Expiration'");
  }
  ISOCOST_TRY(check_credentials(credentials));
  return credentials;
}

Status check_credentials(const AwsCredentials& credentials) {
  const auto wrong = [](const char* what) { return Error(ErrorCode::kInvalidArgument, what); };
  if (credentials.access_key_id.empty()) return wrong("has no access key ID");
  if (credentials.secret_access_key.empty()) return wrong("has no secret access key");
  if (!is_header_value(credentials.access_key_id) ||
      credentials.access_key_id.find_first_of(" ,/=") != std::string::npos) {
    return wrong("has an access key ID with a character that no access key ID has");
  }
  if (!credentials.session_token.empty() && !is_header_value(credentials.session_token)) {
    return wrong("has a session token with a control character");
  }
  return {};
}

}  // namespace isocost
