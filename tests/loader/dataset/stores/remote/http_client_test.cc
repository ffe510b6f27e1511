#include "loader/dataset/stores/remote/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "tests/loader/dataset/stores/remote/fault_server_fixture.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpClientTest : public FaultServerFixture {
 protected:
  static HttpRequest get(const std::string& path = "a.bin", HttpHeaders headers = {}) {
    return {.url = url(path), .name = "the object", .headers = std::move(headers)};
  }
  Result<HttpResponse> send(HttpRequest request) { return client_->wait_for(request, {}); }
  // The error of a request, which must have one.
  Error error_of(HttpRequest request) {
    const auto response = send(std::move(request));
    EXPECT_FALSE(response);
    return response ? Error(ErrorCode::kInternal, "no error") : response.error();
  }
  void restart(const HttpClientOptions& options) { client_ = HttpClient::create(options).value(); }

  std::unique_ptr<HttpClient> client_ = HttpClient::create().value();
};

TEST_F(HttpClientTest, GivesStatusHeadersAndBody) {
  const auto response = send(get("a.bin", {{"Range", "bytes=5-14"}}));
  ASSERT_TRUE(response) << response.error().message();
  EXPECT_EQ(response->status, 206);
  EXPECT_EQ(response->body, content().substr(5, 10));
  EXPECT_EQ(response->header("content-range"), "bytes 5-14/200000");
  EXPECT_EQ(response->header("accept-ranges"), "bytes");
}

TEST_F(HttpClientTest, GivesAResponseOfAnyStatus) {
  const auto response = send(get("no.bin"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->body, "no such file\n");
}

TEST_F(HttpClientTest, AsksForHeadersAlone) {
  HttpRequest head = get();
  head.method = "HEAD";
  const auto response = send(head);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->header("content-length"), "200000");
  EXPECT_EQ(response->body, "");
  EXPECT_EQ(requests()[0]["method"], "HEAD");
}

TEST_F(HttpClientTest, SendsABodyWithTheGivenHeadersAlone) {
  HttpRequest post = get("a.bin", {{"X-Empty", ""}});
  post.method = "POST";
  post.body = std::string(3000, 'b');
  ASSERT_TRUE(send(post));
  const auto seen = requests()[0];
  EXPECT_EQ(seen["method"], "POST");
  EXPECT_EQ(seen["body"], post.body);
  EXPECT_EQ(seen["headers"]["x-empty"], "");
  EXPECT_FALSE(seen["headers"].contains("content-type"));
  EXPECT_FALSE(seen["headers"].contains("expect"));
}

TEST_F(HttpClientTest, SendsThePathAsItStands) {
  ASSERT_TRUE(send(get("x/../a.bin?q=%2F&b=c%20d")));
  EXPECT_EQ(requests()[0]["path"], "/x/../a.bin?q=%2F&b=c%20d");
}

TEST_F(HttpClientTest, KeepsItsConnections) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(get()));
  std::set<int> connections;
  for (const auto& request : requests()) connections.insert(request["connection"].get<int>());
  EXPECT_EQ(connections.size(), 1U);
}

TEST_F(HttpClientTest, HasAtMostSoManyConnections) {
  restart({.ca_file = "", .max_connections = 3});
  set_rules({{{"fault", "latency"}, {"ms", 30}}});
  std::vector<std::future<int>> statuses;
  for (int i = 0; i < 20; ++i) {
    const auto status = std::make_shared<std::promise<int>>();
    statuses.push_back(status->get_future());
    client_->send(get(), {}, [status](const Result<HttpResponse>& response) {
      status->set_value(response ? response->status : 0);
    });
  }
  for (auto& status : statuses) EXPECT_EQ(status.get(), 200);
  std::set<int> connections;
  int most = 0;
  for (const auto& request : requests()) {
    connections.insert(request["connection"].get<int>());
    most = std::max(most, request["in_flight"].get<int>());
  }
  EXPECT_LE(connections.size(), 3U);
  EXPECT_GE(most, 2);
}

TEST_F(HttpClientTest, NamesTheObjectAndNotTheAddress) {
  HttpRequest request = get();
  request.url = "http://user:secret@127.0.0.1:1/a?secret";
  const Error error = error_of(request);
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("the object: no connection to the server: "));
  EXPECT_THAT(error.message(), Not(HasSubstr("secret")));
  request.name = "";
  EXPECT_THAT(error_of(request).message(), HasSubstr("http://127.0.0.1:1/a: no connection"));
}

TEST_F(HttpClientTest, SaysThatAHostIsNotKnown) {
  HttpRequest request = get();
  request.url = "http://nowhere.invalid/a";
  const Error error = error_of(request);
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("the object: "));
}

TEST_F(HttpClientTest, RefusesWhatIsNoAddressOrHeader) {
  HttpRequest request = get();
  request.url = "ftp://host/secret";
  EXPECT_EQ(error_of(request).code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error_of(request).message(), Not(HasSubstr("secret")));
  for (const auto& [name, value] :
       HttpHeaders{{"X-A", "b\r\nHost: evil"}, {"X-A\n", "b"}, {"", "b"}, {"X A", "b"}}) {
    const Error error = error_of(get("a.bin", {{name, value}}));
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(requests().empty());
}

TEST_F(HttpClientTest, SaysThatAConnectionBrokeOff) {
  set_rules({{{"fault", "reset"}}});
  const Error error = error_of(get());
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("the object: the connection broke off"));
}

TEST_F(HttpClientTest, HandsOutWhatCameOfABrokenBody) {
  for (const std::string how : {"close", "reset"}) {
    set_rules({{{"fault", "cut"}, {"after", 1000}, {"how", how}}});
    HttpRequest request = get();
    HttpResponse kept;
    request.on_broken = [&kept](HttpResponse response) {
      kept = std::move(response);
      return true;
    };
    const Error error = error_of(request);
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << how;
    EXPECT_THAT(error.message(), HasSubstr("the connection broke off")) << how;
    EXPECT_EQ(kept.status, 200) << how;
    EXPECT_EQ(kept.body, content().substr(0, 1000)) << how;
    EXPECT_EQ(kept.header("accept-ranges"), "bytes") << how;
  }
}

TEST_F(HttpClientTest, ReportsNoPassingErrorIfTheBrokenBodySaysSo) {
  set_rules({{{"fault", "cut"}, {"after", 10}}});
  HttpRequest request = get();
  request.on_broken = [](const HttpResponse&) { return false; };
  EXPECT_EQ(error_of(request).code(), ErrorCode::kIo);
}

TEST_F(HttpClientTest, EndsATransferThatStalls) {
  restart({.ca_file = "", .stall_timeout = milliseconds(900)});
  for (const int after : {-1, 0, 1000}) {
    set_rules({{{"fault", "stall"}, {"after", after}}});
    const Error error = error_of(get());
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << after;
    EXPECT_THAT(error.message(), HasSubstr("the transfer stalled: less than 1,000 bytes a second "
                                           "came for 1 s"))
        << after;
  }
}

TEST_F(HttpClientTest, EndsATransferOfFewBytesASecond) {
  restart({.ca_file = "", .stall_timeout = seconds(2)});
  set_rules({{{"fault", "drip"}, {"interval", 0.5}}});
  EXPECT_THAT(error_of(get()).message(), HasSubstr("the transfer stalled"));
}

TEST_F(HttpClientTest, EndsABodyOverTheLimit) {
  HttpRequest request = get();
  request.max_body_bytes = kBytes;
  ASSERT_TRUE(send(request));
  request.max_body_bytes = kBytes - 1;
  const Error announced = error_of(request);
  EXPECT_EQ(announced.code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(announced.message(), HasSubstr("the object: the response's body is longer than "
                                             "199999 bytes"));
  set_rules({{{"fault", "headers"}, {"headers", {{"Content-Length", nullptr}}}}});
  EXPECT_EQ(error_of(request).code(), ErrorCode::kResourceExhausted);
}

TEST_F(HttpClientTest, EndsALongBodyOfAnErrorWithoutAnother) {
  set_rules({{{"fault", "status"}, {"status", 404}, {"body", std::string(300'000, 'x')}}});
  HttpRequest request = get();
  request.max_body_bytes = 1;
  const auto response = send(request);
  ASSERT_TRUE(response) << response.error().message();
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->body.size(), 65536U);
  EXPECT_TRUE(send(get()));
}

TEST_F(HttpClientTest, EndsEndlessHeaders) {
  nlohmann::json headers;
  for (int i = 0; i < 30; ++i) headers["X-" + std::to_string(i)] = std::string(10'000, 'x');
  set_rules({{{"fault", "headers"}, {"headers", headers}}});
  EXPECT_EQ(error_of(get()).code(), ErrorCode::kResourceExhausted);
}

TEST_F(HttpClientTest, SaysThatAServerSpeaksAnotherProtocol) {
  set_rules({{{"fault", "garbage"}}});
  const Error garbage = error_of(get());
  EXPECT_EQ(garbage.code(), ErrorCode::kIo);
  EXPECT_THAT(garbage.message(), HasSubstr("the object: the server does not answer in HTTP"));
  HttpRequest tls = get();
  tls.url = "https" + tls.url.substr(4);
  const Error no_tls = error_of(tls);
  EXPECT_EQ(no_tls.code(), ErrorCode::kIo);
  EXPECT_THAT(no_tls.message(), HasSubstr("the object: the TLS handshake failed"));
  EXPECT_THAT(no_tls.message(), HasSubstr("Certificates were looked for in "));
}

TEST_F(HttpClientTest, SendsUserAndPasswordAsBasicAuthentication) {
  HttpRequest request = get();
  request.url = "http://me:se%3Acret@" + request.url.substr(7);
  ASSERT_TRUE(send(request));
  EXPECT_EQ(requests()[0]["headers"]["authorization"], "Basic bWU6c2U6Y3JldA==");
  EXPECT_EQ(requests()[0]["path"], "/a.bin");
}

TEST_F(HttpClientTest, FollowsARedirectWithAllHeadersToTheSameHost) {
  set_rules({{{"fault", "redirect"}, {"location", "/a.bin"}, {"path", "moved"}}});
  const auto response =
      send(get("moved.bin",
               {{"Authorization", "Bearer secret"}, {"X-Amz-Date", "1"}, {"Range", "bytes=1-2"}}));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, content().substr(1, 2));
  const auto seen = requests()[1];
  EXPECT_EQ(seen["path"], "/a.bin");
  EXPECT_EQ(seen["headers"]["authorization"], "Bearer secret");
  EXPECT_EQ(seen["headers"]["x-amz-date"], "1");
}

TEST_F(HttpClientTest, FollowsARedirectWithoutSecretsToAnotherHost) {
  std::filesystem::create_directory(scratch() / "other");
  const FaultServer other = FaultServer::start(scratch() / "files", scratch() / "other").value();
  for (const int status : {301, 302, 303, 307, 308}) {
    server().clear_log();
    other.clear_log();
    set_rules(
        {{{"fault", "redirect"}, {"status", status}, {"location", other.address() + "a.bin"}}});
    HttpRequest request = get("a.bin", {{"Authorization", "Bearer secret"},
                                        {"X-Amz-Security-Token", "secret"},
                                        {"X-aws-ec2-metadata-token", "secret"},
                                        {"Cookie", "secret"},
                                        {"Range", "bytes=1-2"},
                                        {"If-Match", "*"}});
    const auto response = send(request);
    ASSERT_TRUE(response) << response.error().message();
    EXPECT_EQ(response->body, content().substr(1, 2));
    const std::string seen = other.requests()[0]["headers"].dump();
    EXPECT_THAT(seen, Not(HasSubstr("secret"))) << status;
    EXPECT_THAT(seen, HasSubstr("bytes=1-2")) << status;
    EXPECT_EQ(other.requests()[0]["headers"]["if-match"], "*") << status;
    EXPECT_THAT(requests()[0]["headers"].dump(), HasSubstr("Bearer secret")) << status;
  }
}

TEST_F(HttpClientTest, NamesWhereARedirectLed) {
  set_rules({{{"fault", "redirect"}, {"location", "http://127.0.0.1:1/x?secret"}}});
  EXPECT_THAT(error_of(get()).message(),
              HasSubstr("the object (redirected to http://127.0.0.1:1): no connection"));
}

TEST_F(HttpClientTest, FollowsFiveRedirects) {
  set_rules({{{"fault", "redirect"}, {"location", "{path}"}, {"times", 5}}});
  const auto response = send(get());
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  set_rules({{{"fault", "redirect"}, {"location", "{path}"}}});
  const Error error = error_of(get());
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.message(), HasSubstr("redirects more than 5 times"));
}

TEST_F(HttpClientTest, FollowsNoRedirectToAnotherProtocolOrOfABody) {
  set_rules({{{"fault", "redirect"}, {"location", "file:///etc/passwd"}}});
  EXPECT_EQ(error_of(get()).code(), ErrorCode::kIo);
  HttpRequest post = get();
  post.method = "POST";
  EXPECT_EQ(send(post)->status, 302);
}

TEST_F(HttpClientTest, FollowsNoRedirectWhereTheRequestSaysSo) {
  set_rules({{{"fault", "redirect"}, {"status", 307}, {"location", "/a.bin?1"}}});
  HttpRequest request = get();
  request.follow_redirects = false;
  const auto response = send(request);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 307);
  EXPECT_EQ(response->header("location"), "/a.bin?1");
  EXPECT_EQ(requests().size(), 1U);
}

// Sets a variable of the environment as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST_F(HttpClientTest, UsesTheProxyOfTheEnvironmentUnlessToldNotTo) {
  HttpRequest request = get();
  request.url = "http://127.0.0.1:1/a.bin";
  {
    const Variable proxy("http_proxy", server().address());
    const auto response = send(request);
    ASSERT_TRUE(response) << response.error().message();
    EXPECT_EQ(response->body, content());
    EXPECT_EQ(requests()[0]["path"], "http://127.0.0.1:1/a.bin");
    request.use_proxy = false;
    EXPECT_EQ(error_of(request).code(), ErrorCode::kUnavailable);
    request.use_proxy = true;
    const Variable no_proxy("no_proxy", "127.0.0.1");
    EXPECT_EQ(error_of(request).code(), ErrorCode::kUnavailable);
  }
  EXPECT_EQ(requests().size(), 1U);
}

TEST_F(HttpClientTest, NamesAProxyThatRefuses) {
  HttpRequest request = get();
  request.url = "https://127.0.0.1:1/a.bin";
  std::string with_user = server().address();
  with_user.replace(0, 7, "http://me:secret@");
  const Variable proxy("https_proxy", with_user);
  const auto connect_status = [&](int status) {
    set_rules({{{"fault", "status"}, {"status", status}, {"method", "CONNECT"}}});
    return error_of(request);
  };
  EXPECT_EQ(connect_status(503).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(connect_status(403).code(), ErrorCode::kIo);
  EXPECT_THAT(
      connect_status(403).message(),
      HasSubstr("the object: the proxy refuses to connect to the server (status 403); check "
                "HTTPS_PROXY"));
  EXPECT_THAT(connect_status(407).message(), HasSubstr("set HTTPS_PROXY to http://USER:PASSWORD@"));
  EXPECT_THAT(connect_status(407).message(), Not(HasSubstr("secret")));
}

TEST_F(HttpClientTest, CancelsOnRequest) {
  set_rules({{{"fault", "stall"}, {"after", 10}}});
  std::stop_source stop;
  std::promise<Error> ended;
  client_->send(get(), stop.get_token(), [&ended](const Result<HttpResponse>& response) {
    ended.set_value(response.error());
  });
  while (requests().empty()) std::this_thread::yield();
  stop.request_stop();
  EXPECT_EQ(ended.get_future().get().code(), ErrorCode::kCancelled);
  const auto stopped = client_->wait_for(get(), stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
}

TEST_F(HttpClientTest, CancelsWhatWaitsForAConnection) {
  restart({.ca_file = "", .max_connections = 1});
  set_rules({{{"fault", "stall"}, {"after", 10}}});
  std::stop_source stop;
  std::promise<ErrorCode> ended;
  client_->send(get(), {}, [](const Result<HttpResponse>&) {});
  client_->send(get(), stop.get_token(), [&ended](const Result<HttpResponse>& response) {
    ended.set_value(response.error().code());
  });
  stop.request_stop();
  EXPECT_EQ(ended.get_future().get(), ErrorCode::kCancelled);
}

TEST_F(HttpClientTest, CancelsWhatIsInFlightWhenItEnds) {
  restart({.ca_file = "", .max_connections = 2});
  set_rules({{{"fault", "stall"}, {"after", 10}}});
  std::vector<ErrorCode> codes;
  for (int i = 0; i < 5; ++i) {
    client_->send(get(), {}, [&codes](const Result<HttpResponse>& response) {
      codes.push_back(response.error().code());
    });
  }
  while (requests().size() < 2) std::this_thread::yield();
  client_.reset();
  EXPECT_EQ(codes, std::vector<ErrorCode>(5, ErrorCode::kCancelled));
}

TEST_F(HttpClientTest, NamesAFileOfCertificatesThatIsNotThere) {
  const auto client = HttpClient::create({.ca_file = "/nowhere/ca.pem"});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(client.error().message(), HasSubstr("ca_file: /nowhere/ca.pem"));
}

}  // namespace
}  // namespace isocost
