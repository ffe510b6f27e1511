#include "loader/dataset/stores/s3/internal/s3_endpoint.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/aws_hosts.h"

namespace isocost {
namespace {

Error invalid_endpoint(const std::string& message) {
  return {ErrorCode::kInvalidArgument, message};
}

bool is_true(std::string_view text) { return lower_ascii(text) == "true" || text == "1"; }

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_ip_address(std::string_view name) {
  return std::ranges::count(name, '.') == 3 &&
         std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

// Returns what is wrong with a bucket's name on AWS; null: nothing.
const char* wrong_on_aws(std::string_view bucket) {
  if (bucket.size() < 3 || bucket.size() > 63) return "has 3 to 63 characters";
  if (!std::ranges::all_of(bucket,
                           [](char c) { return is_lower_or_digit(c) || c == '.' || c == '-'; })) {
    return "has only a to z, 0 to 9, '.' and '-'";
  }
  if (!is_lower_or_digit(bucket.front()) || !is_lower_or_digit(bucket.back())) {
    return "begins and ends with a letter or digit";
  }
  if (bucket.find("..") != bucket.npos) return "has no two dots in a row";
  if (is_ip_address(bucket)) return "is no IP address";
  return nullptr;
}

// Google's have '_', and old ones of Ceph capitals.
const char* wrong_elsewhere(std::string_view bucket) {
  if (bucket.size() < 3 || bucket.size() > 255) return "has 3 to 255 characters";
  if (!std::ranges::all_of(bucket, [](char c) {
        return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
      })) {
    return "has only letters, digits, '.', '-' and '_'";
  }
  return bucket.front() == '.' ? "does not begin with a dot" : nullptr;
}

// Segments between slashes, without empty ones.
std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    if (slash != 0) segments.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
  }
  return segments;
}

}  // namespace

ConfiguredEndpoint configured_endpoint(const AwsEnvironment& environment,
                                       const SharedProfile& profile, std::string_view service) {
  if (is_true(environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"))) return {};
  for (const std::string& variable :
       {"AWS_ENDPOINT_URL_" + std::string(service), std::string("AWS_ENDPOINT_URL")}) {
    const std::string_view found = environment.get(variable);
    if (!found.empty()) return {std::string(found), variable};
  }
  const std::string source = "endpoint_url of AWS's profile '" + profile.name + "'";
  const auto of_service = profile.services.find(lower_ascii(service) + ".endpoint_url");
  if (of_service != profile.services.end()) return {of_service->second, source};
  const std::string_view of_profile = profile.get("endpoint_url");
  if (of_profile.empty()) return {};
  return {std::string(of_profile), source};
}

std::string configured_region(const AwsEnvironment& environment, const SharedProfile& profile) {
  for (const std::string_view name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (!environment.get(name).empty()) return std::string(environment.get(name));
  }
  return std::string(profile.get("region"));
}

Status check_bucket_name(std::string_view bucket, bool is_on_aws) {
  const std::string shown = "'" + printable_utf8(bucket.substr(0, 80)) + "' ";
  if (bucket.starts_with("arn:")) {
    return invalid_endpoint(shown +
                            "is an ARN, which Isocost does not read: give the alias of the access "
                            "point (...-s3alias) in place of the bucket");
  }
  const char* rule = is_on_aws ? wrong_on_aws(bucket) : wrong_elsewhere(bucket);
  if (rule != nullptr)
    return invalid_endpoint(shown + "is no bucket: the name of a bucket " + rule);
  if (is_on_aws && bucket.ends_with("--x-s3")) {
    return invalid_endpoint(shown +
                            "is a directory bucket (S3 Express), whose sessions Isocost does not "
                            "open: copy the objects to a general purpose bucket");
  }
  return {};
}

Result<S3Endpoint> S3Endpoint::create(const S3Options& options, const SharedProfile& profile,
                                      const std::string& bucket) {
  S3Endpoint endpoint;
  endpoint.bucket_ = bucket;
  std::string address = options.endpoint;
  if (address.empty()) {
    ConfiguredEndpoint configured = configured_endpoint(options.environment, profile, "S3");
    address = std::move(configured.address);
    endpoint.source_ = std::move(configured.source);
  }
  endpoint.is_on_aws_ = address.empty();
  if (!endpoint.is_on_aws_) ISOCOST_TRY(endpoint.take_address(address));
  if (is_true(options.environment.get("AWS_USE_FIPS_ENDPOINT"))) endpoint.service_ += "-fips";
  if (is_true(options.environment.get("AWS_USE_DUALSTACK_ENDPOINT"))) {
    endpoint.service_ += ".dualstack";
  }
  ISOCOST_TRY(check_bucket_name(bucket, endpoint.is_on_aws_));
  return endpoint;
}

Status S3Endpoint::take_address(std::string_view address) {
  const std::string shown = "the S3 endpoint '" + printable_utf8(address.substr(0, 200)) + "' ";
  // It may have a password, so that it is not shown.
  if (address.find('@') != address.npos) {
    return invalid_endpoint(
        "the S3 endpoint has a user (@): give credentials by AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY");
  }
  const bool is_http = starts_with_ignoring_case(address, "http://");
  const bool is_https = starts_with_ignoring_case(address, "https://");
  if (!is_http && !is_https) return invalid_endpoint(shown + "must begin with http:// or https://");
  if (address.find_first_of("?# \\") != address.npos || printable_utf8(address) != address) {
    return invalid_endpoint(shown + "must be a scheme, a host, a port and a path alone");
  }
  address.remove_prefix(is_https ? 8 : 7);
  const std::size_t slash = std::min(address.find('/'), address.size());
  host_ = lower_ascii(address.substr(0, slash));
  path_ = segments_of(address.substr(slash));
  // Clients do not send a scheme's usual port.
  const std::string_view usual = is_https ? ":443" : ":80";
  if (host_.ends_with(usual)) host_.resize(host_.size() - usual.size());
  if (host_.empty() || host_.front() == ':') return invalid_endpoint(shown + "has no host");
  origin_ = (is_https ? "https://" : "http://") + host_;
  return {};
}

std::string S3Endpoint::name() const {
  if (is_on_aws_) return "AWS";
  return source_.empty() ? origin_ : origin_ + " (" + source_ + ")";
}

BucketPlace S3Endpoint::place(std::string_view region) const {
  BucketPlace place{.origin = origin_, .host = host_, .path = path_};
  const bool has_own_host = is_on_aws_ && bucket_.find('.') == std::string::npos;
  if (is_on_aws_) {
    place.host = service_ + "." + std::string(region) + "." + std::string(aws_domain(region));
    if (has_own_host) place.host = bucket_ + "." + place.host;
    place.origin = "https://" + place.host;
  }
  if (!has_own_host) place.path.push_back(bucket_);
  return place;
}

}  // namespace isocost
