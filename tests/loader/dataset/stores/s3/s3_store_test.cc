// The store against a server that refuses as S3 does. moto_test.py has what moto answers.
#include "loader/dataset/stores/s3/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <string>

#include "base/scratch_directory.h"
#include "tests/loader/dataset/stores/s3/python_server.h"

namespace isocost {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kToken1 =
    R"({"Version":1,"AccessKeyId":"AK","SecretAccessKey":"planted","SessionToken":"token-%s"})";

class S3StoreTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectStore> store(S3Options options = {.environment = {}}) {
    if (options.environment.variables.empty()) {
      options.environment.variables = {{"AWS_ACCESS_KEY_ID", "AK"},
                                       {"AWS_SECRET_ACCESS_KEY", "planted"}};
    }
    options.environment.variables.emplace("AWS_ENDPOINT_URL", server_.address());
    RequestSenderOptions sending;
    sending.give_up_after = std::chrono::milliseconds(300);
    sending.log = [this](LogLevel, std::string_view text) {
      EXPECT_THAT(std::string(text), Not(HasSubstr("planted")));
      ++lines_;
    };
    return create_s3_store("bucket", options, *client_, sending).value();
  }

  static Result<std::string> read(ObjectStore& store, const std::string& key,
                                  ByteRange range = {.begin = 2, .end = 5}) {
    std::promise<Result<std::string>> bytes;
    store.read(key, kStamp, range, {},
               [&](Result<std::string> read) { bytes.set_value(std::move(read)); });
    return bytes.get_future().get();
  }

  // The error of a stamp and of a read, which must be the same kind, without a secret.
  std::string problem(const std::string& key, ErrorCode code = ErrorCode::kIo) {
    const std::unique_ptr<ObjectStore> asked = store();
    const Result<ObjectStamp> stamp = asked->stamp(key, {});
    const Result<std::string> bytes = read(*asked, key);
    EXPECT_FALSE(stamp) << key;
    EXPECT_FALSE(bytes) << key;
    if (stamp || bytes) return "";
    EXPECT_EQ(stamp.error().code(), code) << stamp.error().message();
    EXPECT_EQ(bytes.error().code(), code) << bytes.error().message();
    EXPECT_EQ(stamp.error().message(), bytes.error().message());
    EXPECT_THAT(stamp.error().message(), StartsWith("s3://bucket/" + key + ": "));
    EXPECT_THAT(stamp.error().message(), Not(HasSubstr("planted")));
    return stamp.error().message();
  }

  std::string requests() {
    return client_->wait_for({.url = server_.address() + "/requests", .name = "requests"}, {})
        .value()
        .body;
  }

  static inline const ObjectStamp kStamp{.bytes = 10, .etag = "\"e\"", .modified_s = 1'796'000'523};
  std::atomic<int> lines_ = 0;
  PythonServer server_{"s3_refusals.py"};
  std::unique_ptr<HttpClient> client_ = HttpClient::create().value();
};

TEST_F(S3StoreTest, GivesStampsAndRanges) {
  const auto data = store();
  EXPECT_EQ(data->stamp("data", {}).value(), kStamp);
  EXPECT_EQ(read(*data, "data").value(), "234");
  EXPECT_EQ(read(*data, "data", {.begin = 3, .end = 3}).value(), "");
  EXPECT_EQ(data->stamp("", {}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(data->name_of("a b/c\n"), "s3://bucket/a b/c?");
  EXPECT_GE(data->counts().sent.requests, 2);
  EXPECT_EQ(data->counts().credential_renewals, 0);
}

TEST_F(S3StoreTest, AsksInTheRegionThatTheServerNames) {
  for (const std::string key : {"moved", "redirected", "malformed"}) {
    const auto moved = store();
    EXPECT_EQ(moved->stamp(key, {}).value(), kStamp) << key;
    EXPECT_EQ(read(*moved, key).value(), "234") << key;
  }
  // The GET after the second HEAD, which has no body, names the region.
  EXPECT_EQ(
      requests(),
      "HEAD /bucket/moved us-east-1\nHEAD /bucket/moved eu-west-1\nGET /bucket/moved eu-west-1\n"
      "HEAD /bucket/redirected us-east-1\nHEAD /bucket/redirected eu-west-1\n"
      "GET /bucket/redirected eu-west-1\n"
      "HEAD /bucket/malformed us-east-1\nGET /bucket/malformed us-east-1\n"
      "GET /bucket/malformed eu-west-1\nGET /bucket/malformed eu-west-1");
  EXPECT_EQ(lines_, 0);
  const auto reads = store();
  EXPECT_EQ(read(*reads, "malformed").value(), "234");
}

TEST_F(S3StoreTest, WarnsOfAWrongRegion) {
  const auto moved = store({.region = "us-west-2", .environment = {}});
  EXPECT_EQ(read(*moved, "moved").value(), "234");
  EXPECT_EQ(lines_, 1);
  EXPECT_EQ(read(*moved, "moved").value(), "234");
  EXPECT_EQ(lines_, 1);
  const auto moving = store();
  const Error lost = read(*moving, "moving").error();
  EXPECT_THAT(lost.message(), HasSubstr("the bucket is in the region 'eu-west-2', not 'eu-west-1': "
                                        "set AWS_REGION=eu-west-2 (status 400, "
                                        "AuthorizationHeaderMalformed: elsewhere; request R1)"));
}

TEST_F(S3StoreTest, RenewsExpiredCredentialsOnce) {
  const ScratchDirectory scratch = ScratchDirectory::create("isocost-s3").value();
  std::ofstream(scratch / "tool.sh")
      << "n=$(cat $1 2>/dev/null || echo 1)\nprintf '" << kToken1 << "' $n\necho $((n + 1)) > $1\n";
  std::ofstream(scratch / "config")
      << "[default]\ncredential_process = /bin/sh " << (scratch / "tool.sh").string() << " "
      << (scratch / "number").string() << "\n";
  const AwsEnvironment environment{
      .variables = {{"AWS_CONFIG_FILE", (scratch / "config").string()}, {"PATH", "/usr/bin:/bin"}}};
  const auto renewing = store({.environment = environment});
  EXPECT_EQ(read(*renewing, "expired").value(), "234");
  EXPECT_EQ(renewing->counts().credential_renewals, 1);
  EXPECT_EQ(renewing->stamp("expired", {}).value(), kStamp);
  EXPECT_EQ(renewing->counts().credential_renewals, 1);
  const Error refused = read(*renewing, "always-expired").error();
  EXPECT_EQ(refused.code(), ErrorCode::kIo);
  EXPECT_THAT(refused.message(),
              AllOf(StartsWith("s3://bucket/always-expired: the credentials of credential_process "
                               "(/bin/sh) of AWS's profile 'default' have expired"),
                    HasSubstr("ExpiredToken")));
  EXPECT_EQ(renewing->counts().credential_renewals, 2);
}

TEST_F(S3StoreTest, SaysByHowMuchTheClockIsWrong) {
  EXPECT_THAT(problem("skewed"), HasSubstr("this machine's clock is 5 minutes fast: set it"));
}

TEST_F(S3StoreTest, SaysWhatIsDenied) {
  EXPECT_THAT(problem("denied"), AllOf(HasSubstr("the credentials of the environment variable "
                                                 "AWS_ACCESS_KEY_ID may not read the object "
                                                 "(s3:GetObject), or it does not exist"),
                                       HasSubstr("(s3:ListBucket)")));
  EXPECT_THAT(problem("wrong-key"), HasSubstr("the secret key is not that of the access key"));
  EXPECT_THAT(problem("unknown-key"), HasSubstr("does not know the access key"));
  EXPECT_THAT(problem("archived"), HasSubstr("restore it first"));
  EXPECT_THAT(problem("refused-by-proxy"), HasSubstr("a web page (text/html) came"));
  const auto anonymous = store({.anonymous = true, .environment = {}});
  EXPECT_THAT(read(*anonymous, "denied").error().message(),
              HasSubstr("access is denied to requests without credentials"));
  EXPECT_EQ(read(*anonymous, "data").value(), "234");
  EXPECT_THAT(requests(), testing::EndsWith("GET /bucket/data "));
}

TEST_F(S3StoreTest, GivesAStampWhereOnlyHeadIsRefused) {
  EXPECT_EQ(store()->stamp("without-head", {}).value(), kStamp);
}

TEST_F(S3StoreTest, SaysThatAnObjectWasReplaced) {
  const Error changed = read(*store(), "replaced").error();
  EXPECT_EQ(changed.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(changed.message(), StartsWith("s3://bucket/replaced: the object has changed"));
}

TEST_F(S3StoreTest, TakesNoPageForAnObject) {
  EXPECT_THAT(read(*store(), "page").error().message(), HasSubstr("a web page (text/html) came"));
  EXPECT_EQ(read(*store(), "page").error().code(), ErrorCode::kIo);
}

TEST_F(S3StoreTest, GivesUpOnABusyServerAfterAWhile) {
  EXPECT_THAT(problem("busy", ErrorCode::kUnavailable),
              HasSubstr("asks to send less, for longer than requests are repeated (status 503, "
                        "SlowDown: Reduce your request rate.; request R1)"));
}

TEST_F(S3StoreTest, AgreesToPayForRequests) {
  EXPECT_EQ(read(*store({.requester_pays = true, .environment = {}}), "requester-pays").value(),
            "234");
  EXPECT_FALSE(read(*store(), "requester-pays"));
}

TEST_F(S3StoreTest, RefusesListingsThatAreNone) {
  const auto listed = store();
  const Error page = listed->list("page", true, {}).error();
  EXPECT_EQ(page.code(), ErrorCode::kIo);
  EXPECT_THAT(page.message(),
              StartsWith("s3://bucket/page: the answer to a request for a listing "
                         "is no listing: its root is 'html'; check that the endpoint, " +
                         server_.address() + " (AWS_ENDPOINT_URL), is right"));
  EXPECT_THAT(listed->list("loop", true, {}).error().message(),
              HasSubstr("the listing does not end"));
  EXPECT_THAT(listed->list("denied", true, {}).error().message(),
              HasSubstr("may not list the bucket (s3:ListBucket)"));
}

TEST_F(S3StoreTest, TakesNoOtherServerForAStoreWithoutTheObject) {
  EXPECT_THAT(problem("absent", ErrorCode::kNotFound), HasSubstr("the object does not exist"));
  const std::string no_s3 =
      server_.address() +
      " (AWS_ENDPOINT_URL) does not answer as a server of S3 does: check that this endpoint is "
      "right, and whether a proxy answers (status ";
  const auto listed = store();
  for (const std::string key : {"plain-absent", "plain-redirect"}) {
    EXPECT_THAT(problem(key), HasSubstr(no_s3)) << key;
    const Error listing = listed->list(key, true, {}).error();
    EXPECT_EQ(listing.code(), ErrorCode::kIo);
    EXPECT_THAT(listing.message(), StartsWith("s3://bucket/" + key + ": " + no_s3));
  }
  EXPECT_THAT(listed->list("refused-by-proxy", true, {}).error().message(),
              HasSubstr(server_.address() + " (AWS_ENDPOINT_URL) is no server of S3, or a proxy"));
}

TEST(S3StoreWithoutAServer, NamesTheEndpointAndWhereItCameFrom) {
  const std::unique_ptr<HttpClient> client = HttpClient::create().value();
  const S3Options options{.anonymous = true,
                          .environment = {{{"AWS_ENDPOINT_URL", "http://127.0.0.1:1"}}}};
  std::string line;
  RequestSenderOptions sending;
  sending.give_up_unreachable_after = std::chrono::milliseconds(200);
  sending.log = [&line](LogLevel, std::string_view text) { line = text; };
  const auto store = create_s3_store("bucket", options, *client, sending).value();
  const Error error = store->list("data/", true, {}).error();
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), StartsWith("s3://bucket/: no connection to http://127.0.0.1:1 "
                                          "(AWS_ENDPOINT_URL): Failed to connect"));
  EXPECT_THAT(line, HasSubstr("(AWS_ENDPOINT_URL)"));
  EXPECT_EQ(store->stamp("data/a.tar", {}).error().code(), ErrorCode::kUnavailable);
}

TEST_F(S3StoreTest, EndsWithItsReads) {
  std::promise<Result<std::string>> bytes;
  {
    // Nothing answers for the credentials, so that the request waits for them.
    const auto waiting = store({.environment = {.variables = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                                               "http://169.254.170.23/v1"}}}});
    waiting->read("data", kStamp, {.begin = 0, .end = 1}, {},
                  [&](Result<std::string> read) { bytes.set_value(std::move(read)); });
  }
  EXPECT_FALSE(bytes.get_future().get());
}

TEST(CreateS3Store, RefusesWhatCannotBe) {
  const std::unique_ptr<HttpClient> client = HttpClient::create().value();
  const auto problem = [&](const std::string& bucket, const S3Options& options) {
    const auto store = create_s3_store(bucket, options, *client);
    EXPECT_EQ(store.error().code(), ErrorCode::kInvalidArgument);
    return store.error().message();
  };
  EXPECT_THAT(problem("Bucket", {.environment = {}}), HasSubstr("is no bucket"));
  EXPECT_THAT(problem("bucket", {.region = "eu west", .environment = {}}),
              HasSubstr("is no region"));
  EXPECT_THAT(problem("bucket", {.endpoint = "minio", .environment = {}}), HasSubstr("http://"));
  EXPECT_THAT(problem("bucket", {.environment = {{{"AWS_EC2_METADATA_DISABLED", "true"}}}}),
              HasSubstr("no AWS credentials"));
  EXPECT_THAT(problem("bucket", {.profile = "none", .environment = {}}),
              HasSubstr("profile 'none'"));
}

}  // namespace
}  // namespace isocost
