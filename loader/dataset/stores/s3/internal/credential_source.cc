#include "loader/dataset/stores/s3/internal/credential_source.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/aws_hosts.h"
#include "loader/dataset/stores/s3/internal/command_words.h"
#include "loader/dataset/stores/s3/internal/container_credentials.h"
#include "loader/dataset/stores/s3/internal/instance_credentials.h"
#include "loader/dataset/stores/s3/internal/json_credentials.h"
#include "loader/dataset/stores/s3/internal/run_command.h"
#include "loader/dataset/stores/s3/internal/s3_endpoint.h"
#include "loader/dataset/stores/s3/internal/web_identity.h"

namespace isocost {
namespace {

using Found = Result<std::optional<CredentialSource>>;

Error no_credentials(const std::string& message) { return {ErrorCode::kInvalidArgument, message}; }

std::string_view value(const IniSection& section, std::string_view name) {
  const auto found = section.find(name);
  return found == section.end() ? std::string_view() : std::string_view(found->second);
}

std::string profile_name(const SharedProfile& profile) {
  return "AWS's profile '" + printable_utf8(profile.name) + "'";
}

CredentialSource fixed(std::string name, AwsCredentials credentials) {
  return {std::move(name), [credentials = std::move(credentials)](const std::stop_token&) {
            return Result<AwsCredentials>(credentials);
          }};
}

Found keys_of_environment(const AwsEnvironment& environment) {
  AwsCredentials keys{.access_key_id = std::string(environment.get("AWS_ACCESS_KEY_ID")),
                      .secret_access_key = std::string(environment.get("AWS_SECRET_ACCESS_KEY")),
                      .session_token = std::string(environment.get("AWS_SESSION_TOKEN"))};
  // botocore's older name.
  if (keys.session_token.empty()) keys.session_token = environment.get("AWS_SECURITY_TOKEN");
  if (keys.access_key_id.empty() && keys.secret_access_key.empty()) return std::nullopt;
  ISOCOST_TRY_CONTEXT(check_credentials(keys),
                      "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)");
  return fixed("the environment variable AWS_ACCESS_KEY_ID", std::move(keys));
}

// Keys in one of the two files.
std::optional<AwsCredentials> keys_of(const IniSection& section) {
  if (value(section, "aws_access_key_id").empty()) return std::nullopt;
  AwsCredentials keys{.access_key_id = std::string(value(section, "aws_access_key_id")),
                      .secret_access_key = std::string(value(section, "aws_secret_access_key")),
                      .session_token = std::string(value(section, "aws_session_token"))};
  if (keys.session_token.empty()) keys.session_token = value(section, "aws_security_token");
  return keys;
}

// Reads the files again each time, since other programs put new keys into them.
Found keys_of_file(const S3Options& options, const SharedProfile& profile,
                   IniSection SharedProfile::* section, const std::filesystem::path& file) {
  const std::optional<AwsCredentials> keys = keys_of(profile.*section);
  if (!keys) return std::nullopt;
  std::string name = profile_name(profile) + " of " + file.string();
  ISOCOST_TRY_CONTEXT(check_credentials(*keys), name);
  const auto fetch = [environment = options.environment, chosen = profile.name, section,
                      name](const std::stop_token&) -> Result<AwsCredentials> {
    ISOCOST_ASSIGN(const SharedProfile read, read_shared_profile(environment, chosen));
    std::optional<AwsCredentials> now = keys_of(read.*section);
    if (!now) return no_credentials(name + " has no keys any more");
    ISOCOST_TRY_CONTEXT(check_credentials(*now), name);
    return *std::move(now);
  };
  return CredentialSource{std::move(name), fetch};
}

Result<AwsCredentials> run_credential_process(const std::vector<std::string>& words,
                                              const AwsEnvironment& environment,
                                              const std::stop_token& stop) {
  ISOCOST_ASSIGN(const std::string output, run_command(words, environment, stop));
  Result<AwsCredentials> credentials =
      parse_json_credentials(output, {.token = "SessionToken", .has_version = true});
  if (!credentials) return std::move(credentials).error().with_context("what it writes");
  return credentials;
}

Found credential_process(const S3Options& options, const SharedProfile& profile) {
  const std::string_view line = profile.get("credential_process");
  if (line.empty()) return std::nullopt;
  Result<std::vector<std::string>> words = split_command(line);
  if (!words)
    return no_credentials("credential_process of " + profile_name(profile) + " " +
                          words.error().message());
  // Its arguments may be secret.
  std::string name =
      "credential_process (" + printable_utf8(words->front()) + ") of " + profile_name(profile);
  const auto fetch = [words = *std::move(words), environment = options.environment,
                      name](const std::stop_token& stop) -> Result<AwsCredentials> {
    Result<AwsCredentials> credentials = run_credential_process(words, environment, stop);
    if (!credentials) {
      const Error& error = credentials.error();
      return Error(error.code(), name + ": " + error.message());
    }
    return credentials;
  };
  return CredentialSource{std::move(name), fetch};
}

constexpr std::string_view kRemedy =
    "add a profile whose credential_process is 'aws configure export-credentials --format process "
    "--profile ";

Status refuse_other_role(const SharedProfile& profile) {
  const bool takes_role =
      !profile.get("role_arn").empty() && profile.get("web_identity_token_file").empty();
  if (!takes_role) return {};
  return no_credentials(profile_name(profile) +
                        " takes a role from another source (role_arn), which Isocost does not: " +
                        std::string(kRemedy) + printable_utf8(profile.name) +
                        "', and choose it with AWS_PROFILE");
}

Status refuse_single_sign_on(const SharedProfile& profile) {
  for (const std::string_view name :
       {"sso_session", "sso_start_url", "sso_account_id", "sso_role_name", "sso_region"}) {
    if (profile.get(name).empty()) continue;
    return no_credentials(profile_name(profile) + " uses single sign-on (" + std::string(name) +
                          "), which Isocost does not: sign in with 'aws sso login', " +
                          std::string(kRemedy) + printable_utf8(profile.name) +
                          "', and choose it with AWS_PROFILE");
  }
  return {};
}

// The service's endpoint of the region in which this program runs, else the global one.
std::string sts_endpoint(const AwsEnvironment& environment, const SharedProfile& profile) {
  std::string endpoint = configured_endpoint(environment, profile, "STS").address;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.empty()) return endpoint;
  const std::string region = configured_region(environment, profile);
  if (!is_region(region)) return "https://sts.amazonaws.com";
  return "https://sts." + region + "." + std::string(aws_domain(region));
}

Found web_identity(const S3Options& options, const SharedProfile& profile, const AskService& ask) {
  // Values of the environment do not count where a profile was chosen by option.
  const auto setting = [&](std::string_view variable, std::string_view name) {
    const std::string_view text =
        options.profile.empty() ? options.environment.get(variable) : std::string_view();
    return std::string(text.empty() ? profile.get(name) : text);
  };
  WebIdentity identity;
  identity.token_file = setting("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
  if (identity.token_file.empty()) return std::nullopt;
  identity.role_arn = setting("AWS_ROLE_ARN", "role_arn");
  if (identity.role_arn.empty()) {
    return no_credentials("AWS_WEB_IDENTITY_TOKEN_FILE (" + identity.token_file.string() +
                          ") has no role: set AWS_ROLE_ARN, too");
  }
  const std::string session = setting("AWS_ROLE_SESSION_NAME", "role_session_name");
  if (!session.empty()) identity.session_name = session;
  identity.endpoint = sts_endpoint(options.environment, profile);
  return CredentialSource{
      "the web identity " + identity.token_file.string(),
      [identity, ask](const std::stop_token& stop) { return assume_role(identity, ask, stop); }};
}

Found container(const S3Options& options, const AskService& ask) {
  if (!has_container_endpoint(options.environment)) return std::nullopt;
  ISOCOST_ASSIGN(ContainerEndpoint endpoint, container_endpoint(options.environment));
  return CredentialSource{"the container's endpoint",
                          [endpoint = std::move(endpoint), ask](const std::stop_token& stop) {
                            return ask_container(endpoint, ask, stop);
                          }};
}

constexpr std::string_view kNoCredentials =
    "no AWS credentials are configured: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE; a public bucket is read with ISOCOST_S3_ANONYMOUS=1";

Result<CredentialSource> instance(const S3Options& options, const AskService& ask) {
  if (is_instance_metadata_disabled(options.environment)) {
    return no_credentials(std::string(kNoCredentials));
  }
  const std::string address = instance_metadata_address(options.environment);
  // If it never answered, nothing was configured, and trying again is of no use.
  auto has_answered = std::make_shared<std::atomic<bool>>(false);
  return CredentialSource{
      "the instance metadata",
      [address, ask, has_answered](const std::stop_token& stop) -> Result<AwsCredentials> {
        Result<AwsCredentials> credentials = ask_instance(address, ask, stop);
        if (credentials) *has_answered = true;
        if (*has_answered || credentials.error().code() == ErrorCode::kCancelled) {
          return credentials;
        }
        return Error(ErrorCode::kIo,
                     std::string(kNoCredentials) +
                         ". The last source gives none: " + credentials.error().message());
      }};
}

}  // namespace

Result<CredentialSource> find_credential_source(const S3Options& options,
                                                const SharedProfile& profile,
                                                const AskService& ask) {
  if (options.anonymous || options.environment.get("ISOCOST_S3_ANONYMOUS") == "1") {
    return CredentialSource{};
  }
  if (options.credentials) {
    ISOCOST_TRY_CONTEXT(check_credentials(*options.credentials), "the pair of keys that was given");
    return fixed("the keys that were given", *options.credentials);
  }
  std::optional<CredentialSource> found;
  if (options.profile.empty()) {
    ISOCOST_ASSIGN(found, keys_of_environment(options.environment));
    if (found) return *std::move(found);
  }
  ISOCOST_TRY(refuse_other_role(profile));
  ISOCOST_ASSIGN(found, web_identity(options, profile, ask));
  if (found) return *std::move(found);
  ISOCOST_TRY(refuse_single_sign_on(profile));
  ISOCOST_ASSIGN(
      found, keys_of_file(options, profile, &SharedProfile::credentials, profile.credentials_file));
  if (found) return *std::move(found);
  ISOCOST_ASSIGN(found, credential_process(options, profile));
  if (found) return *std::move(found);
  ISOCOST_ASSIGN(found,
                 keys_of_file(options, profile, &SharedProfile::config, profile.config_file));
  if (found) return *std::move(found);
  ISOCOST_ASSIGN(found, container(options, ask));
  if (found) return *std::move(found);
  return instance(options, ask);
}

}  // namespace isocost
