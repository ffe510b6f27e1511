#include "loader/dataset/stores/s3/internal/s3_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Variables = std::map<std::string, std::string, std::less<>>;

BucketPlace place(const std::string& bucket, const Variables& variables = {},
                  const std::string& endpoint = "", const std::string& region = "eu-west-1") {
  const S3Options options{.endpoint = endpoint, .environment = {variables}};
  return S3Endpoint::create(options, {}, bucket).value().place(region);
}

TEST(S3Endpoint, IsTheBucketsOwnHostOnAws) {
  const BucketPlace own = place("bucket");
  EXPECT_EQ(own.origin, "https://bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(own.host, "bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_THAT(own.path, IsEmpty());
  EXPECT_EQ(place("bucket", {}, "", "cn-north-1").host, "bucket.s3.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(place("bucket", {}, "", "us-gov-west-1").host, "bucket.s3.us-gov-west-1.amazonaws.com");
}

TEST(S3Endpoint, HasTheBucketInThePathWhereItHasDots) {
  const BucketPlace dotted = place("my.bucket");
  EXPECT_EQ(dotted.origin, "https://s3.eu-west-1.amazonaws.com");
  EXPECT_THAT(dotted.path, ElementsAre("my.bucket"));
}

TEST(S3Endpoint, HasTheBucketInThePathOfAnotherStore) {
  const BucketPlace minio = place("b_1", {}, "http://MinIO:9000/");
  EXPECT_EQ(minio.origin, "http://minio:9000");
  EXPECT_EQ(minio.host, "minio:9000");
  EXPECT_THAT(minio.path, ElementsAre("b_1"));
  EXPECT_THAT(place("bucket", {}, "https://h:443/base//x").path,
              ElementsAre("base", "x", "bucket"));
  EXPECT_EQ(place("bucket", {}, "https://h:443/base//x").host, "h");
  EXPECT_EQ(place("bucket", {}, "http://[::1]:443").host, "[::1]:443");
}

TEST(S3Endpoint, IsThatOfTheEnvironment) {
  const Variables both = {{"AWS_ENDPOINT_URL", "http://all"}, {"AWS_ENDPOINT_URL_S3", "http://s3"}};
  EXPECT_EQ(place("bucket", both).host, "s3");
  EXPECT_EQ(place("bucket", both, "http://option").host, "option");
  EXPECT_EQ(place("bucket", {{"AWS_ENDPOINT_URL", "http://all"}}).host, "all");
  Variables ignored = both;
  ignored["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(place("bucket", ignored).host, "bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(
      place("bucket", {{"AWS_USE_FIPS_ENDPOINT", "true"}, {"AWS_USE_DUALSTACK_ENDPOINT", "true"}})
          .host,
      "bucket.s3-fips.dualstack.eu-west-1.amazonaws.com");
}

TEST(S3Endpoint, IsThatOfTheProfile) {
  SharedProfile profile;
  profile.config = {{"endpoint_url", "http://profile"}, {"region", "r"}};
  profile.name = "p";
  EXPECT_EQ(configured_endpoint({}, profile, "S3").address, "http://profile");
  EXPECT_EQ(configured_endpoint({}, profile, "S3").source, "endpoint_url of AWS's profile 'p'");
  profile.services = {{"s3.endpoint_url", "http://service"}};
  EXPECT_EQ(configured_endpoint({}, profile, "S3").address, "http://service");
  EXPECT_EQ(configured_endpoint({}, profile, "STS").address, "http://profile");
  EXPECT_EQ(configured_region({}, profile), "r");
  EXPECT_EQ(configured_region({{{"AWS_DEFAULT_REGION", "d"}}}, profile), "d");
  EXPECT_EQ(configured_region({{{"AWS_DEFAULT_REGION", "d"}, {"AWS_REGION", "e"}}}, profile), "e");
}

TEST(S3Endpoint, NamesWhatConfiguredIt) {
  const auto name = [](Variables variables) {
    const S3Options options{.environment = {.variables = std::move(variables)}};
    return S3Endpoint::create(options, {}, "bucket").value().name();
  };
  EXPECT_EQ(name({}), "AWS");
  EXPECT_EQ(name({{"AWS_ENDPOINT_URL", "http://h:9"}}), "http://h:9 (AWS_ENDPOINT_URL)");
  EXPECT_EQ(name({{"AWS_ENDPOINT_URL", "http://h:9"}, {"AWS_ENDPOINT_URL_S3", "http://s"}}),
            "http://s (AWS_ENDPOINT_URL_S3)");
}

TEST(S3Endpoint, RefusesWhatIsNoAddress) {
  for (const char* address : {"minio:9000", "ftp://h", "http://", "http:///x", "http://:80",
                              "http://h?q", "http://h#f", "http://a b", "http://h\n"}) {
    const auto endpoint =
        S3Endpoint::create({.endpoint = address, .environment = {}}, {}, "bucket");
    ASSERT_FALSE(endpoint) << address;
    EXPECT_EQ(endpoint.error().code(), ErrorCode::kInvalidArgument);
  }
  const auto secret =
      S3Endpoint::create({.endpoint = "http://user:secret@h", .environment = {}}, {}, "bucket");
  EXPECT_THAT(secret.error().message(), HasSubstr("has a user"));
  EXPECT_THAT(secret.error().message(), Not(HasSubstr("secret")));
}

TEST(S3Endpoint, RefusesNamesThatNoBucketHas) {
  for (const char* name :
       {"ab", "Bucket", "a_b", "-ab", "ab-", ".ab", "a..b", "10.0.0.1", "a b", "b\xC3\xA4r",
        "0123456789012345678901234567890123456789012345678901234567890123"}) {
    const Status checked = check_bucket_name(name, true);
    ASSERT_FALSE(checked) << name;
    EXPECT_THAT(checked.error().message(), HasSubstr("the name of a bucket ")) << name;
  }
  EXPECT_THAT(check_bucket_name("b--use1-az4--x-s3", true).error().message(),
              HasSubstr("directory bucket"));
  EXPECT_THAT(check_bucket_name("arn:aws:s3:r:1:accesspoint", true).error().message(),
              HasSubstr("-s3alias"));
  for (const char* name : {"abc", "a.b-c", "0bucket", "my-access-point-x-s3alias"}) {
    EXPECT_TRUE(check_bucket_name(name, true)) << name;
  }
  for (const char* name : {"a_b", "Bucket", "10.0.0.1"})
    EXPECT_TRUE(check_bucket_name(name, false));
  for (const char* name : {"", "ab", "a b", "a/b", "..."})
    EXPECT_FALSE(check_bucket_name(name, false));
}

}  // namespace
}  // namespace isocost
