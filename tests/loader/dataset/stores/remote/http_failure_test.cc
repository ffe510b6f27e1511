#include "loader/dataset/stores/remote/internal/http_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isocost {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Error failure(CURLcode code, const std::string& text, bool connected = false) {
  return http_failure({.code = code, .text = text, .connected = connected}, "https://h/a",
                      "/etc/ca.crt", 20);
}

TEST(HttpFailure, MayPassIfItIsTheConnections) {
  for (const CURLcode code : {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
                              CURLE_COULDNT_CONNECT, CURLE_OPERATION_TIMEDOUT, CURLE_PARTIAL_FILE,
                              CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR}) {
    const Error error = failure(code, "");
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << code;
    EXPECT_THAT(error.message(), HasSubstr("https://h/a: ")) << code;
  }
}

TEST(HttpFailure, NamesAServerThatCannotBeReached) {
  CurlFailure failure{.code = CURLE_COULDNT_CONNECT, .text = "Failed", .server = "http://h (X)"};
  EXPECT_TRUE(is_unreachable(failure));
  EXPECT_EQ(http_failure(failure, "s3://b/a", "", 20).message(),
            "s3://b/a: no connection to http://h (X): Failed; check the address, and whether the "
            "server runs");
  failure.code = CURLE_COULDNT_RESOLVE_HOST;
  EXPECT_TRUE(is_unreachable(failure));
  EXPECT_EQ(http_failure(failure, "s3://b/a", "", 20).message(),
            "s3://b/a: the name of http://h (X) is not known now: Failed; check the host in the "
            "address");
  failure.code = CURLE_COULDNT_RESOLVE_PROXY;
  EXPECT_TRUE(is_unreachable(failure));
  EXPECT_THAT(http_failure(failure, "s3://b/a", "", 20).message(), HasSubstr("HTTPS_PROXY"));
  for (const CURLcode code : {CURLE_OPERATION_TIMEDOUT, CURLE_GOT_NOTHING, CURLE_RECV_ERROR}) {
    failure.code = code;
    EXPECT_FALSE(is_unreachable(failure)) << code;
  }
}

TEST(HttpFailure, TellsAStallFromATimeOutWithoutAConnection) {
  EXPECT_EQ(failure(CURLE_OPERATION_TIMEDOUT, "after 10000 ms").message(),
            "https://h/a: no connection to the server: after 10000 ms");
  EXPECT_EQ(failure(CURLE_OPERATION_TIMEDOUT, "after 20000 ms", true).message(),
            "https://h/a: the transfer stalled: less than 1,000 bytes a second came for 20 s");
}

TEST(HttpFailure, SaysWhyAServerIsNotTrusted) {
  const Error authority =
      failure(CURLE_PEER_FAILED_VERIFICATION,
              "SSL certificate problem: unable to get local issuer certificate");
  EXPECT_EQ(authority.code(), ErrorCode::kIo);
  EXPECT_THAT(authority.message(), HasSubstr("certificates were looked for in /etc/ca.crt"));
  for (const std::string text : {"SSL certificate problem: certificate has expired",
                                 "SSL certificate problem: certificate is not yet valid"}) {
    EXPECT_THAT(failure(CURLE_PEER_FAILED_VERIFICATION, text).message(),
                HasSubstr("check this machine's clock"));
    EXPECT_THAT(failure(CURLE_PEER_FAILED_VERIFICATION, text).message(),
                Not(HasSubstr("/etc/ca.crt")));
  }
}

TEST(HttpFailure, TellsABrokenConnectionFromARefusedHandshake) {
  EXPECT_EQ(failure(CURLE_SSL_CONNECT_ERROR,
                    "OpenSSL SSL_connect: Connection reset by peer in connection to h:443")
                .code(),
            ErrorCode::kUnavailable);
  EXPECT_EQ(failure(CURLE_SSL_CONNECT_ERROR,
                    "OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to h:443")
                .code(),
            ErrorCode::kUnavailable);
  const Error refused =
      failure(CURLE_SSL_CONNECT_ERROR, "error:0A00010B:SSL routines::wrong version number");
  EXPECT_EQ(refused.code(), ErrorCode::kIo);
  EXPECT_THAT(refused.message(), HasSubstr("the TLS handshake failed: error:0A00010B"));
}

}  // namespace
}  // namespace isocost
