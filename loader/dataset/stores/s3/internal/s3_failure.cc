#include "loader/dataset/stores/s3/internal/s3_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "base/utf8.h"
#include "loader/dataset/stores/remote/header_values.h"
#include "loader/dataset/stores/s3/internal/aws_hosts.h"
#include "loader/dataset/stores/s3/internal/error_document.h"

namespace isocost {
namespace {

// A refusal, and what is known of it.
struct Refusal {
  const S3Asked& asked;
  const HttpResponse& response;
  const ErrorDocument& document;
};

std::string credentials_of(const S3Asked& asked) {
  return "the credentials of " + asked.credentials;
}

std::string no_object(const Refusal& /*refusal*/) { return "the object does not exist"; }

std::string no_bucket(const Refusal& refusal) {
  return fmt::format(
      "there is no bucket '{}' at {}: check its name, and whether it is another endpoint's "
      "(AWS_ENDPOINT_URL_S3)",
      refusal.asked.bucket, refusal.asked.endpoint);
}

// A store hides from those who may not list a bucket which objects it has.
std::string access_denied(const Refusal& refusal) {
  const S3Asked& asked = refusal.asked;
  if (asked.credentials.empty()) {
    return "access is denied to requests without credentials: the bucket is not public, or the "
           "object does not exist; give credentials, and unset ISOCOST_S3_ANONYMOUS";
  }
  if (asked.lists) {
    return fmt::format("access is denied: {} may not list the bucket (s3:ListBucket)",
                       credentials_of(asked));
  }
  return fmt::format(
      "access is denied: {} may not read the object (s3:GetObject), or it does not exist, which is "
      "told only to those who may list the bucket (s3:ListBucket)",
      credentials_of(asked));
}

std::string unknown_key(const Refusal& refusal) {
  return fmt::format(
      "{} does not know the access key of {}: check it, and whether it is another "
      "store's (AWS_ENDPOINT_URL_S3)",
      refusal.asked.endpoint, credentials_of(refusal.asked));
}

std::string wrong_signature(const Refusal& refusal) {
  return fmt::format(
      "the signature is wrong: in {} the secret key is not that of the access key, or a proxy "
      "changes requests on their way",
      credentials_of(refusal.asked));
}

std::string expired(const Refusal& refusal) {
  return fmt::format("{} have expired or are invalid, also when fetched again: renew them",
                     credentials_of(refusal.asked));
}

std::string wrong_clock(const Refusal& refusal) {
  const auto servers = parse_http_date(refusal.response.header("date"));
  if (!servers) return "this machine's clock is wrong: set it, such as by NTP";
  const std::int64_t ahead_s = refusal.asked.now.time_since_epoch().count() - *servers;
  return fmt::format("this machine's clock is {} minutes {}: set it, such as by NTP",
                     (std::abs(ahead_s) + 30) / 60, ahead_s > 0 ? "fast" : "slow");
}

std::string archived(const Refusal& /*refusal*/) {
  return "the object is archived (such as in Glacier): restore it first, with 'aws s3api "
         "restore-object'";
}

std::string wrong_region(const Refusal& refusal) {
  return fmt::format("the bucket is not in the region '{}': set AWS_REGION to its own",
                     refusal.asked.region);
}

// Every server of S3 says by a document why it refuses a GET.
std::string is_no_s3(const Refusal& refusal) {
  return fmt::format(
      "{} does not answer as a server of S3 does: check that this endpoint is right, and whether a "
      "proxy answers",
      refusal.asked.endpoint);
}

std::string web_page(const Refusal& refusal) {
  return fmt::format(
      "a web page (text/html) came instead of the store's answer: {} is no server of S3, or a "
      "proxy or a login stands before it; check the endpoint, and HTTPS_PROXY and NO_PROXY",
      refusal.asked.endpoint);
}

std::string asks_to_wait(const Refusal& /*refusal*/) {
  return "the server asks to send less, for longer than requests are repeated";
}

std::string cannot_answer(const Refusal& /*refusal*/) {
  return "the server cannot answer, for longer than requests are repeated";
}

std::string proxy_denies(const Refusal& /*refusal*/) {
  return "the proxy denies access: set HTTPS_PROXY to http://USER:PASSWORD@PROXY:PORT";
}

struct Row {
  std::string_view code;  ///< The document's.
  ErrorCode error = ErrorCode::kIo;
  std::string (*sentence)(const Refusal&);
  S3Remedy remedy = S3Remedy::kNone;
};

constexpr Row kByCode[] = {
    {"NoSuchKey", ErrorCode::kNotFound, &no_object},
    {"NoSuchBucket", ErrorCode::kIo, &no_bucket},
    {"AccessDenied", ErrorCode::kIo, &access_denied},
    {"AllAccessDisabled", ErrorCode::kIo, &access_denied},
    {"InvalidAccessKeyId", ErrorCode::kIo, &unknown_key},
    {"SignatureDoesNotMatch", ErrorCode::kIo, &wrong_signature},
    {"ExpiredToken", ErrorCode::kIo, &expired, S3Remedy::kNewCredentials},
    {"InvalidToken", ErrorCode::kIo, &expired, S3Remedy::kNewCredentials},
    {"TokenRefreshRequired", ErrorCode::kIo, &expired, S3Remedy::kNewCredentials},
    {"RequestTimeTooSkewed", ErrorCode::kIo, &wrong_clock},
    {"RequestExpired", ErrorCode::kIo, &wrong_clock},
    {"InvalidObjectState", ErrorCode::kIo, &archived},
    {"PermanentRedirect", ErrorCode::kIo, &wrong_region},
    {"TemporaryRedirect", ErrorCode::kIo, &wrong_region},
    {"AuthorizationHeaderMalformed", ErrorCode::kIo, &wrong_region},
    {"IllegalLocationConstraintException", ErrorCode::kIo, &wrong_region},
    {"SlowDown", ErrorCode::kUnavailable, &asks_to_wait},
    {"RequestTimeout", ErrorCode::kUnavailable, &cannot_answer, S3Remedy::kAgain},
};

// For responses without a document, and with one that is not in the table.
struct StatusRow {
  int first;
  int last;
  bool without_document;  ///< Whether it counts only where there is none.
  ErrorCode error;
  std::string (*sentence)(const Refusal&);
};

constexpr StatusRow kByStatus[] = {
    {403, 403, true, ErrorCode::kIo, &access_denied},
    {407, 407, false, ErrorCode::kIo, &proxy_denies},
    {408, 408, false, ErrorCode::kUnavailable, &cannot_answer},
    {429, 429, false, ErrorCode::kUnavailable, &asks_to_wait},
    {503, 503, false, ErrorCode::kUnavailable, &asks_to_wait},
    {500, 599, false, ErrorCode::kUnavailable, &cannot_answer},
    {300, 499, true, ErrorCode::kIo, &is_no_s3},
};

// The server's own words, behind ours.
std::string as_told(const Refusal& refusal) {
  const ErrorDocument& document = refusal.document;
  std::string text = fmt::format(" (status {}", refusal.response.status);
  if (!document.code.empty()) text += ", " + document.code;
  if (!document.message.empty()) text += ": " + document.message;
  if (!document.request_id.empty()) text += "; request " + document.request_id;
  return text + ")";
}

Error error_with(const Refusal& refusal, ErrorCode code, const std::string& sentence) {
  return {code, refusal.asked.name + ": " + sentence + as_told(refusal)};
}

bool is_page(const HttpResponse& response) {
  return lower_ascii(response.header("content-type")).starts_with("text/html");
}

S3Failure by_status(const Refusal& refusal) {
  const int status = refusal.response.status;
  const bool has_document = !refusal.document.code.empty();
  if (!has_document && is_page(refusal.response) && status < 500) {
    return {.error = error_with(refusal, ErrorCode::kIo, web_page(refusal))};
  }
  for (const StatusRow& row : kByStatus) {
    if (status < row.first || status > row.last || (row.without_document && has_document)) continue;
    return {.error = error_with(refusal, row.error, row.sentence(refusal))};
  }
  return {.error = error_with(refusal, ErrorCode::kIo, "the store refuses the request")};
}

// The region that a response names in place of the one that was asked in.
std::string other_region(const Refusal& refusal) {
  std::string region = refusal.document.region;
  if (region.empty()) region = refusal.response.header("x-amz-bucket-region");
  return is_region(region) && region != refusal.asked.region ? region : "";
}

}  // namespace

S3Failure explain_failure(const S3Asked& asked, const HttpResponse& response) {
  const ErrorDocument document = parse_error_document(response.body).value_or(ErrorDocument());
  const Refusal refusal{asked, response, document};
  // Some servers name their region in every response.
  const bool may_be_region = response.status == 400 || response.status == 403 ||
                             (response.status >= 301 && response.status <= 308);
  if (std::string region = other_region(refusal); may_be_region && !region.empty()) {
    Error error = error_with(refusal, ErrorCode::kIo,
                             fmt::format("the bucket is in the region '{}', not '{}': set "
                                         "AWS_REGION={}",
                                         region, asked.region, region));
    return {S3Remedy::kOtherRegion, std::move(region), std::move(error)};
  }
  const Row* row = std::ranges::find(kByCode, document.code, &Row::code);
  if (row == std::end(kByCode)) return by_status(refusal);
  return {.remedy = row->remedy, .error = error_with(refusal, row->error, row->sentence(refusal))};
}

}  // namespace isocost
