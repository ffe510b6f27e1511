#include "loader/dataset/stores/s3/internal/signature.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/utf8.h"
#include "loader/dataset/stores/s3/internal/digest.h"
#include "loader/dataset/stores/s3/internal/percent_encoding.h"
#include "loader/dataset/stores/s3/internal/time_text.h"

namespace isocost {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
// Clients and proxies add and change these, so that no signature covers them.
constexpr std::string_view kNotSigned[] = {"expect", "user-agent", "x-amzn-trace-id",
                                           "transfer-encoding"};

std::string encoded_path(const std::vector<std::string>& segments) {
  std::string path;
  for (const std::string& segment : segments) path += "/" + percent_encoded(segment);
  return path.empty() ? "/" : path;
}

// Without dots, and with one slash where there are several (RFC 3986, 5.2.4, and AWS's own rule).
std::string normalised_path(const std::vector<std::string>& segments) {
  std::vector<std::string> kept;
  for (const std::string& segment : segments) {
    if (segment.empty() || segment == ".") continue;
    if (segment != "..") {
      kept.push_back(segment);
    } else if (!kept.empty()) {
      kept.pop_back();
    }
  }
  std::string path = encoded_path(kept);
  const bool ends_in_slash = !segments.empty() && segments.back().empty();
  return ends_in_slash && !kept.empty() ? path + "/" : path;
}

std::string canonical_path(const RequestTarget& target, std::string_view service) {
  if (service == "s3") return encoded_path(target.path);
  return percent_encoded(normalised_path(target.path), true);
}

std::string canonical_query(const RequestTarget& target) {
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(target.query.size());
  for (const auto& [name, value] : target.query) {
    pairs.emplace_back(percent_encoded(name), percent_encoded(value));
  }
  std::sort(pairs.begin(), pairs.end());
  std::string query;
  for (const auto& [name, value] : pairs) {
    if (!query.empty()) query += '&';
    query.append(name).append("=").append(value);
  }
  return query;
}

// Without white space around it, and with one space where there is more.
std::string trimmed(std::string_view value) {
  constexpr std::string_view kHeaderSpaces = " \t\n\v\f\r";
  std::string text;
  std::size_t begin = value.find_first_not_of(kHeaderSpaces);
  while (begin != value.npos) {
    const std::size_t end = std::min(value.find_first_of(kHeaderSpaces, begin), value.size());
    if (!text.empty()) text += ' ';
    text += value.substr(begin, end - begin);
    begin = value.find_first_not_of(kHeaderSpaces, end);
  }
  return text;
}

// Names in lower case, in order; the values of a name that is repeated, in theirs.
using CanonicalHeaders = std::map<std::string, std::string>;

CanonicalHeaders canonical_headers(const UnsignedRequest& request, const HttpHeaders& added) {
  CanonicalHeaders headers{{"host", trimmed(request.host)}};
  for (const HttpHeaders* some : {&request.headers, &added}) {
    for (const auto& [name, value] : *some) {
      std::string lower = lower_ascii(name);
      if (std::ranges::find(kNotSigned, lower) != std::end(kNotSigned)) continue;
      const auto [header, is_first] = headers.try_emplace(std::move(lower), trimmed(value));
      if (!is_first) header->second += "," + trimmed(value);
    }
  }
  return headers;
}

std::string signed_names(const CanonicalHeaders& headers) {
  std::string names;
  for (const auto& [name, value] : headers) names += (names.empty() ? "" : ";") + name;
  return names;
}

std::string canonical_request(const UnsignedRequest& request, std::string_view service,
                              const CanonicalHeaders& headers) {
  std::string text = request.method + "\n" + canonical_path(request.target, service) + "\n" +
                     canonical_query(request.target) + "\n";
  for (const auto& [name, value] : headers) text.append(name).append(":").append(value) += "\n";
  return text + "\n" + signed_names(headers) + "\n" + request.payload_sha256;
}

std::string signing_key(const SigningScope& scope, const std::string& day,
                        const AwsCredentials& credentials) {
  std::string key = hmac_sha256("AWS4" + credentials.secret_access_key, day);
  key = hmac_sha256(key, scope.region);
  key = hmac_sha256(key, scope.service);
  return hmac_sha256(key, "aws4_request");
}

}  // namespace

std::string encoded_target(const RequestTarget& target) {
  const std::string query = canonical_query(target);
  return encoded_path(target.path) + (query.empty() ? "" : "?" + query);
}

Signature sign_request(const UnsignedRequest& request, const SigningScope& scope,
                       const AwsCredentials& credentials) {
  const std::string time = basic_iso8601(scope.time);
  const std::string day = time.substr(0, 8);
  Signature signature;
  signature.headers.emplace_back("x-amz-date", time);
  if (scope.service == "s3") {
    signature.headers.emplace_back("x-amz-content-sha256", request.payload_sha256);
  }
  if (!credentials.session_token.empty()) {
    signature.headers.emplace_back("x-amz-security-token", credentials.session_token);
  }
  const CanonicalHeaders headers = canonical_headers(request, signature.headers);
  signature.canonical_request = canonical_request(request, scope.service, headers);
  const std::string where = day + "/" + scope.region + "/" + scope.service + "/aws4_request";
  const std::string to_sign = std::string(kAlgorithm) + "\n" + time + "\n" + where + "\n" +
                              sha256_hex(signature.canonical_request);
  const std::string hmac = hex_digits(hmac_sha256(signing_key(scope, day, credentials), to_sign));
  signature.headers.emplace_back(
      "authorization", std::string(kAlgorithm) + " Credential=" + credentials.access_key_id + "/" +
                           where + ", SignedHeaders=" + signed_names(headers) +
                           ", Signature=" + hmac);
  return signature;
}

}  // namespace isocost
