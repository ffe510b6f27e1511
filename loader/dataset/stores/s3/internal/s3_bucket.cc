#include "loader/dataset/stores/s3/internal/s3_bucket.h"

#include <cstddef>

#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/signature.h"

namespace isocost {
namespace {

// Stores that are not AWS take it, too, where they have no region.
constexpr const char* kFirstRegion = "us-east-1";

// The segments of a key between its slashes, also empty ones.
void append_segments(std::string_view key, std::vector<std::string>& path) {
  while (true) {
    const std::size_t slash = key.find('/');
    path.emplace_back(key.substr(0, slash));
    if (slash == key.npos) return;
    key.remove_prefix(slash + 1);
  }
}

}  // namespace

S3Bucket::S3Bucket(std::string name, S3Endpoint endpoint, std::string region, bool requester_pays,
                   std::unique_ptr<CredentialKeeper> keeper, LogSink log, WallClock now)
    : name_(std::move(name)),
      endpoint_(std::move(endpoint)),
      requester_pays_(requester_pays),
      keeper_(std::move(keeper)),
      log_(std::move(log)),
      now_(std::move(now)),
      was_region_given_(!region.empty()),
      region_(was_region_given_ ? std::move(region) : kFirstRegion) {}

std::string S3Bucket::name_of(std::string_view key) const {
  return "s3://" + name_ + "/" + printable_utf8(key);
}

Result<HttpRequest> S3Bucket::make(const S3Question& question, S3Attempt& attempt,
                                   const std::stop_token& stop) const {
  const std::string name = name_of(question.key.value_or(""));
  if (question.key && question.key->empty()) {
    return Error(ErrorCode::kInvalidArgument, name + ": the address names no object");
  }
  {
    const MutexLock lock(mutex_);
    attempt.region = region_;
  }
  const BucketPlace place = endpoint_.place(attempt.region);
  UnsignedRequest request{.method = question.method,
                          .host = place.host,
                          .target = {.path = place.path, .query = question.query},
                          .headers = question.headers};
  if (question.key) append_segments(*question.key, request.target.path);
  if (requester_pays_) request.headers.emplace_back("x-amz-request-payer", "requester");
  HttpRequest made{.method = question.method,
                   .url = place.origin + encoded_target(request.target),
                   .name = name,
                   .server = endpoint_.name(),
                   .headers = request.headers};
  // A gateway that compresses on the way would change sizes and ranges. Some change this header,
  // so that the signature does not cover it.
  made.headers.emplace_back("accept-encoding", "identity");
  if (!keeper_) return made;
  made.follow_redirects = false;
  Result<AwsCredentials> credentials = keeper_->get(stop);
  if (!credentials) return std::move(credentials).error().with_context(name);
  attempt.credentials = *std::move(credentials);
  const Signature signature =
      sign_request(request, {.region = attempt.region, .time = now_()}, attempt.credentials);
  made.headers.insert(made.headers.end(), signature.headers.begin(), signature.headers.end());
  return made;
}

S3Failure S3Bucket::explain(const std::string& name, const S3Question& question,
                            const S3Attempt& attempt, const HttpResponse& response) const {
  return explain_failure({.name = name,
                          .bucket = name_,
                          .endpoint = endpoint_.name(),
                          .region = attempt.region,
                          .credentials = keeper_ ? keeper_->source_name() : "",
                          .lists = !question.key,
                          .now = now_()},
                         response);
}

bool S3Bucket::mend(const S3Failure& failure, const S3Attempt& attempt) {
  switch (failure.remedy) {
    case S3Remedy::kNone:
      return false;
    case S3Remedy::kAgain:
      return true;
    case S3Remedy::kNewCredentials:
      if (keeper_) keeper_->refuse(attempt.credentials);
      return keeper_ != nullptr;
    case S3Remedy::kOtherRegion:
      break;
  }
  {
    const MutexLock lock(mutex_);
    // Another request may have learnt it already.
    if (region_ != attempt.region) return true;
    region_ = failure.region;
  }
  if (was_region_given_) {
    log(log_, LogLevel::kWarning,
        "the bucket " + name_ + " is in the region " + failure.region + ", not " + attempt.region +
            ", and is asked there; set AWS_REGION=" + failure.region);
  }
  return true;
}

}  // namespace isocost
