#include "loader/dataset/stores/s3/internal/credential_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/scratch_directory.h"
#include "loader/dataset/stores/remote/http_client.h"
#include "loader/dataset/stores/s3/internal/s3_endpoint.h"
#include "tests/loader/dataset/stores/s3/python_server.h"

namespace isocost {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

using Variables = std::map<std::string, std::string, std::less<>>;

class CredentialSourceTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((scratch_ / name).parent_path());
    std::ofstream(scratch_ / name) << text;
  }
  std::string path(const std::string& name) const { return scratch_ / name; }

  Result<CredentialSource> find(Variables variables, S3Options options = {.environment = {}}) {
    variables.emplace("HOME", scratch_.path().string());
    variables.emplace("PATH", "/usr/bin:/bin");
    options.environment.variables = std::move(variables);
    ISOCOST_ASSIGN(const SharedProfile profile,
                   read_shared_profile(options.environment, options.profile));
    return find_credential_source(options, profile, ask());
  }
  Result<AwsCredentials> fetch(const Variables& variables,
                               const S3Options& options = {.environment = {}}) {
    ISOCOST_ASSIGN(const CredentialSource source, find(variables, options));
    return source.fetch({});
  }
  std::string problem(const Variables& variables, const S3Options& options = {.environment = {}}) {
    const Result<AwsCredentials> credentials = fetch(variables, options);
    return credentials ? "" : credentials.error().message();
  }

  AskService ask() {
    return [this](HttpRequest request, const std::stop_token& stop) {
      asked_by_proxy_ = request.use_proxy;
      return client_->wait_for(std::move(request), stop);
    };
  }
  const std::string& server() {
    if (!server_) {
      server_ = std::make_unique<PythonServer>("credential_server.py");
      address_ = server_->address();
    }
    return address_;
  }
  std::string requests() {
    return client_->wait_for({.url = server() + "/requests", .name = "requests"}, {}).value().body;
  }

  bool asked_by_proxy_ = false;

 private:
  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-credentials").value();
  std::unique_ptr<HttpClient> client_ = HttpClient::create().value();
  std::unique_ptr<PythonServer> server_;
  std::string address_;
};

const AwsCredentials kExpected{
    .access_key_id = "ASIAX",
    .secret_access_key = "se+cr/et",
    .session_token = "tok==",
    .expires = std::chrono::sys_seconds(std::chrono::seconds(2'111'619'723))};

TEST_F(CredentialSourceTest, TakesKeysOfOptionsThenOfTheEnvironment) {
  const Variables variables = {{"AWS_ACCESS_KEY_ID", "AKE"},
                               {"AWS_SECRET_ACCESS_KEY", "env/secret"},
                               {"AWS_SESSION_TOKEN", "env-token"}};
  EXPECT_EQ(fetch(variables).value(), (AwsCredentials{.access_key_id = "AKE",
                                                      .secret_access_key = "env/secret",
                                                      .session_token = "env-token"}));
  const AwsCredentials given{.access_key_id = "AKO", .secret_access_key = "s"};
  EXPECT_EQ(fetch(variables, {.credentials = given, .environment = {}}).value(), given);
  EXPECT_EQ(find(variables, {.anonymous = true, .environment = {}}).value().name, "");
  Variables anonymous = variables;
  anonymous["ISOCOST_S3_ANONYMOUS"] = "1";
  EXPECT_EQ(find(anonymous).value().name, "");
}

TEST_F(CredentialSourceTest, RefusesHalfAPairAndKeysThatBreakAHeader) {
  EXPECT_THAT(problem({{"AWS_ACCESS_KEY_ID", "AKE"}}), HasSubstr("has no secret access key"));
  EXPECT_THAT(problem({{"AWS_SECRET_ACCESS_KEY", "secret"}}), HasSubstr("has no access key ID"));
  for (const Variables& variables :
       {Variables{{"AWS_ACCESS_KEY_ID", "AK\nx: y"}, {"AWS_SECRET_ACCESS_KEY", "secret"}},
        Variables{{"AWS_ACCESS_KEY_ID", "AK"},
                  {"AWS_SECRET_ACCESS_KEY", "secret"},
                  {"AWS_SESSION_TOKEN", "secret\r\nx: y"}}}) {
    EXPECT_THAT(problem(variables), HasSubstr("character"));
    EXPECT_THAT(problem(variables), Not(HasSubstr("secret\r")));
  }
}

TEST_F(CredentialSourceTest, ReadsProfilesOfTheSharedFiles) {
  write(".aws/credentials",
        "[default]\naws_access_key_id=AKD\naws_secret_access_key=d\n"
        "[other]\naws_access_key_id=AKP\naws_secret_access_key=p\naws_session_token=t\n");
  write(".aws/config", "[profile configured]\naws_access_key_id=AKC\naws_secret_access_key=c\n");
  EXPECT_EQ(fetch({}).value().access_key_id, "AKD");
  EXPECT_EQ(fetch({{"AWS_PROFILE", "other"}}).value().session_token, "t");
  EXPECT_EQ(fetch({{"AWS_PROFILE", "configured"}}).value().access_key_id, "AKC");
  const Variables keys = {{"AWS_ACCESS_KEY_ID", "AKE"}, {"AWS_SECRET_ACCESS_KEY", "e"}};
  EXPECT_EQ(fetch(keys).value().access_key_id, "AKE");
  EXPECT_EQ(fetch(keys, {.profile = "other", .environment = {}}).value().access_key_id, "AKP");
  EXPECT_THAT(find({}).value().name, EndsWith("profile 'default' of " + path(".aws/credentials")));
  EXPECT_THAT(problem({{"AWS_PROFILE", "absent"}}), HasSubstr("AWS's profile 'absent' is neither"));
  write("elsewhere", "[default]\naws_access_key_id=AKF\naws_secret_access_key=f\n");
  EXPECT_EQ(fetch({{"AWS_SHARED_CREDENTIALS_FILE", path("elsewhere")}}).value().access_key_id,
            "AKF");
  EXPECT_EQ(fetch({{"AWS_SHARED_CREDENTIALS_FILE", "~/elsewhere"}}).value().access_key_id, "AKF");
}

TEST_F(CredentialSourceTest, ReadsKeysThatWereReplacedInAFile) {
  write(".aws/credentials", "[default]\naws_access_key_id=AK1\naws_secret_access_key=d\n");
  const CredentialSource source = find({}).value();
  EXPECT_EQ(source.fetch({}).value().access_key_id, "AK1");
  write(".aws/credentials", "[default]\naws_access_key_id=AK2\naws_secret_access_key=d\n");
  EXPECT_EQ(source.fetch({}).value().access_key_id, "AK2");
  write(".aws/credentials", "[default]\n");
  EXPECT_THAT(source.fetch({}).error().message(), HasSubstr("has no keys any more"));
}

TEST_F(CredentialSourceTest, RefusesFilesThatCannotBeRead) {
  write(".aws/config", "[default]\nsecret line\n");
  EXPECT_THAT(problem({}), HasSubstr("AWS's file " + path(".aws/config") + ": line 2 "));
  EXPECT_THAT(problem({}), Not(HasSubstr("secret")));
}

TEST_F(CredentialSourceTest, ReadsTheServicesOfAProfile) {
  write(".aws/config",
        "[default]\nservices = local\n[services local]\ns3 =\n  endpoint_url = http://minio\n");
  const AwsEnvironment environment{.variables = {{"AWS_CONFIG_FILE", path(".aws/config")}}};
  EXPECT_EQ(
      configured_endpoint(environment, read_shared_profile(environment).value(), "S3").address,
      "http://minio");
  write(".aws/config", "[default]\nservices = absent\n");
  EXPECT_THAT(problem({}), HasSubstr("names [services absent], which is not in"));
}

TEST_F(CredentialSourceTest, RunsACredentialProcess) {
  write("tool.sh",
        "printf '{\"Version\": 1, \"AccessKeyId\": \"AKT\", \"SecretAccessKey\": \"%s\", "
        "\"SessionToken\": \"t\", \"Expiration\": \"2036-11-30T01:02:03+00:00\"}' \"$1\"\n");
  write(".aws/config",
        "[default]\ncredential_process = /bin/sh \"" + path("tool.sh") +
            "\" 'a b'\n"
            "[profile broken]\ncredential_process = /bin/echo {\"SecretAccessKey\":\"planted\"\n"
            "[profile version]\ncredential_process = /bin/echo '{\"Version\":2}'\n"
            "[profile failing]\ncredential_process = /bin/sh -c 'echo no session >&2; exit 255' "
            "planted\n"
            "[profile open]\ncredential_process = 'planted\n");
  EXPECT_EQ(fetch({}).value(), (AwsCredentials{.access_key_id = "AKT",
                                               .secret_access_key = "a b",
                                               .session_token = "t",
                                               .expires = kExpected.expires}));
  EXPECT_THAT(problem({{"AWS_PROFILE", "broken"}}), HasSubstr("it is no JSON object"));
  EXPECT_THAT(problem({{"AWS_PROFILE", "version"}}), HasSubstr("'Version' is not 1"));
  EXPECT_EQ(
      problem({{"AWS_PROFILE", "failing"}}),
      "credential_process (/bin/sh) of AWS's profile 'failing': ends with status 255: no session");
  EXPECT_THAT(problem({{"AWS_PROFILE", "open"}}), HasSubstr("not closed"));
  for (const char* name : {"broken", "version", "failing", "open"}) {
    EXPECT_THAT(problem({{"AWS_PROFILE", name}}), Not(HasSubstr("planted"))) << name;
  }
}

TEST_F(CredentialSourceTest, RefusesSingleSignOnAndRolesByName) {
  write(".aws/config",
        "[profile sso]\nsso_session = corp\nsso_account_id = 1\n"
        "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = default\n");
  EXPECT_THAT(problem({{"AWS_PROFILE", "sso"}}),
              HasSubstr("AWS's profile 'sso' uses single sign-on (sso_session)"));
  EXPECT_THAT(problem({{"AWS_PROFILE", "sso"}}),
              HasSubstr("aws configure export-credentials --format process --profile sso"));
  EXPECT_THAT(problem({{"AWS_PROFILE", "role"}}), HasSubstr("takes a role from another source"));
}

TEST_F(CredentialSourceTest, AsksTheSecurityTokenServiceForAWebIdentity) {
  write("token", "good+/=\n");
  Variables variables = {{"AWS_WEB_IDENTITY_TOKEN_FILE", path("token")},
                         {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                         {"AWS_ENDPOINT_URL_STS", server() + "/sts/"}};
  EXPECT_EQ(fetch(variables).value(), (AwsCredentials{.access_key_id = "ASIASTS",
                                                      .secret_access_key = "sts/secret",
                                                      .session_token = "sts&token",
                                                      .expires = kExpected.expires}));
  EXPECT_TRUE(asked_by_proxy_);
  write("token", "planted");
  EXPECT_THAT(problem(variables), HasSubstr("the role arn:aws:iam::1:role/r cannot be taken: the "
                                            "Security Token Service at " +
                                            server() +
                                            "/sts answers with "
                                            "status 400, ExpiredTokenException: Token expired"));
  EXPECT_THAT(problem(variables), Not(HasSubstr("planted")));
  write("token", "");
  EXPECT_THAT(problem(variables), EndsWith("/token is empty"));
  variables.erase("AWS_ROLE_ARN");
  EXPECT_THAT(problem(variables), HasSubstr("set AWS_ROLE_ARN"));
}

TEST_F(CredentialSourceTest, AsksAContainersEndpoint) {
  Variables variables = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server() + "/container/x?id=1"},
                         {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "container token"}};
  EXPECT_EQ(fetch(variables).value(), kExpected);
  EXPECT_FALSE(asked_by_proxy_);
  // The file, which is renewed, comes first.
  variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = path("token");
  write("token", "wrong-planted");
  EXPECT_THAT(problem(variables), HasSubstr("the container's endpoint " + server() +
                                            "/container/x answers with status 401"));
  EXPECT_THAT(problem(variables), Not(HasSubstr("planted")));
  write("token", "planted\n");
  EXPECT_THAT(problem(variables), HasSubstr("has a line break"));
  EXPECT_THAT(problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server() + "/container-broken"}}),
              HasSubstr("it is no JSON object"));
}

TEST_F(CredentialSourceTest, AsksABusyEndpointAgain) {
  EXPECT_EQ(fetch({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server() + "/container-busy/"}}).value(),
            kExpected);
  EXPECT_EQ(requests(), "GET /container-busy/\nGET /container-busy/\nGET /container-busy/");
}

TEST_F(CredentialSourceTest, RefusesAContainersEndpointThatOthersCouldAnswer) {
  for (const char* address :
       {"http://example.com/", "http://169.254.169.254/", "http://localhost.example.com/",
        "ftp://localhost/", "http://user@localhost@example.com/", "http://127.0.0.1@example.com/",
        "http://127.0.0.1\\@example.com/", "http:///x", "https:///x", "localhost/x",
        "http://[::2]/", "http://128.0.0.1/"}) {
    EXPECT_THAT(problem({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", address}}),
                HasSubstr("must be an address with https://"))
        << address;
  }
  EXPECT_THAT(problem({{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ".example.com/"}}),
              HasSubstr("must begin with '/'"));
  for (const char* address :
       {"http://localhost:1/", "http://127.1.2.3/", "http://[::1]:80/", "HTTPS://example.com/",
        "http://169.254.170.23/v1", "http://[FD00:ec2::23]/v1"}) {
    EXPECT_TRUE(find({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", address}})) << address;
  }
}

TEST_F(CredentialSourceTest, AsksTheInstancesMetadataWithATokenOfIts) {
  EXPECT_EQ(fetch({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server() + "/imds/"}}).value(), kExpected);
  EXPECT_FALSE(asked_by_proxy_);
  EXPECT_EQ(requests(),
            "PUT /imds/latest/api/token\nGET /imds/latest/meta-data/iam/security-credentials/\n"
            "GET /imds/latest/meta-data/iam/security-credentials/the%20role");
}

TEST_F(CredentialSourceTest, SaysWhatToDoWhereNothingIsConfigured) {
  EXPECT_THAT(problem({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server() + "/imds-without-role"}}),
              HasSubstr("this machine has no role"));
  EXPECT_THAT(problem({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server() + "/imds-v1"}}),
              HasSubstr("it does not give a token"));
  EXPECT_THAT(problem({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server() + "/imds-html"}}),
              HasSubstr("does not give a token"));
  const Error closed = fetch({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"}}).error();
  EXPECT_EQ(closed.code(), ErrorCode::kIo);
  EXPECT_THAT(closed.message(),
              HasSubstr("no AWS credentials are configured: set AWS_ACCESS_KEY_ID"));
  const Error disabled = find({{"AWS_EC2_METADATA_DISABLED", "True"}}).error();
  EXPECT_EQ(disabled.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(disabled.message(), HasSubstr("ISOCOST_S3_ANONYMOUS=1"));
}

}  // namespace
}  // namespace isocost
