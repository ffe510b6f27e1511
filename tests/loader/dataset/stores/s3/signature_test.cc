// Vectors that AWS has published. They are facts: requests, times and what signs them.
#include "loader/dataset/stores/s3/internal/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

using std::chrono::seconds;
using std::chrono::sys_seconds;
using testing::EndsWith;
using testing::HasSubstr;

std::string header(const Signature& signature, std::string_view name) {
  for (const auto& [key, value] : signature.headers) {
    if (key == name) return value;
  }
  return "";
}

// "Examples: Signature Calculations" of the Amazon S3 API Reference, "Authenticating Requests:
// Using the Authorization Header (AWS Signature Version 4)".
const AwsCredentials kS3Example{.access_key_id = "AKIAIOSFODNN7EXAMPLE",
                                .secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
const SigningScope kS3Scope{.region = "us-east-1", .time = sys_seconds(seconds(1'369'353'600))};

std::string s3_authorization(RequestTarget target, HttpHeaders headers = {}) {
  const UnsignedRequest request{.host = "examplebucket.s3.amazonaws.com",
                                .target = std::move(target),
                                .headers = std::move(headers)};
  return header(sign_request(request, kS3Scope, kS3Example), "authorization");
}

TEST(Signature, IsThatOfS3sExampleOfARange) {
  EXPECT_EQ(s3_authorization({.path = {"test.txt"}}, {{"Range", "bytes=0-9"}}),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Signature, IsThatOfS3sExampleOfANameWithoutValue) {
  EXPECT_THAT(
      s3_authorization({.query = {{"lifecycle", ""}}}),
      EndsWith("Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(Signature, IsThatOfS3sExampleOfAListing) {
  EXPECT_THAT(
      s3_authorization({.query = {{"prefix", "J"}, {"max-keys", "2"}}}),
      EndsWith("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

// "Create a signed AWS API request" of the AWS Identity and Access Management User Guide.
TEST(Signature, IsThatOfIamsExample) {
  const UnsignedRequest request{
      .host = "iam.amazonaws.com",
      .target = {.query = {{"Action", "ListUsers"}, {"Version", "2010-05-08"}}},
      .headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}}};
  const SigningScope scope{
      .region = "us-east-1", .service = "iam", .time = sys_seconds(seconds(1'440'938'160))};
  const AwsCredentials credentials{.access_key_id = "AKIDEXAMPLE",
                                   .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
  EXPECT_EQ(header(sign_request(request, scope, credentials), "authorization"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
            "SignedHeaders=content-type;host;x-amz-date, "
            "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

TEST(Signature, TakesPathsOfS3AsTheyAre) {
  const RequestTarget target{.path = {"a b", "", "..", ".", "c%20", ""}};
  EXPECT_EQ(encoded_target(target), "/a%20b//.././c%2520/");
  const UnsignedRequest request{.host = "h", .target = target};
  EXPECT_THAT(sign_request(request, kS3Scope, kS3Example).canonical_request,
              HasSubstr("GET\n/a%20b//.././c%2520/\n\n"));
}

TEST(Signature, NormalisesAndEncodesPathsOfOtherServicesTwice) {
  SigningScope scope = kS3Scope;
  scope.service = "sts";
  const UnsignedRequest request{.host = "h",
                                .target = {.path = {"", "a b", "", "x", "..", ".", "c", ""}}};
  EXPECT_THAT(sign_request(request, scope, kS3Example).canonical_request,
              HasSubstr("GET\n/a%2520b/c/\n\n"));
}

TEST(Signature, CoversTheSessionToken) {
  AwsCredentials credentials = kS3Example;
  credentials.session_token = "token";
  const Signature signature = sign_request({.host = "h"}, kS3Scope, credentials);
  EXPECT_EQ(header(signature, "x-amz-security-token"), "token");
  EXPECT_THAT(signature.canonical_request, HasSubstr("\nx-amz-security-token:token\n"));
  EXPECT_THAT(header(signature, "authorization"), HasSubstr("x-amz-date;x-amz-security-token,"));
}

TEST(Signature, OrdersTheQueryAsItIsSent) {
  const RequestTarget target{
      .query = {{"b", "2"}, {"a", "z&"}, {"a", ""}, {"a-", "1"}, {"B", "="}}};
  EXPECT_EQ(encoded_target(target), "/?B=%3D&a=&a=z%26&a-=1&b=2");
}

}  // namespace
}  // namespace isocost
