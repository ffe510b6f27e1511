#include "loader/dataset/stores/s3/internal/error_document.h"

#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

TEST(ErrorDocument, SaysWhatS3Refused) {
  const auto document = parse_error_document(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; expecting 'eu-west-1'</Message>
<Region>eu-west-1</Region><RequestId>4442587FB7D0A2F9</RequestId><HostId>x</HostId></Error>)");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(document->message, "the region 'us-east-1' is wrong; expecting 'eu-west-1'");
  EXPECT_EQ(document->region, "eu-west-1");
  EXPECT_EQ(document->request_id, "4442587FB7D0A2F9");
}

TEST(ErrorDocument, SaysWhatStsRefused) {
  const auto document = parse_error_document(
      R"(<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<Error><Type>Sender</Type><Code>ExpiredTokenException</Code><Message>Token expired</Message></Error>
<RequestId>c6104cbe</RequestId></ErrorResponse>)");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->code, "ExpiredTokenException");
  EXPECT_EQ(document->message, "Token expired");
  EXPECT_EQ(document->request_id, "c6104cbe");
}

TEST(ErrorDocument, HasAShortPrintableMessage) {
  const auto document = parse_error_document("<Error><Code>A</Code><Message>a\nb" +
                                             std::string(1000, 'x') + "</Message></Error>");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->message.substr(0, 4), "a?bx");
  EXPECT_LT(document->message.size(), 410U);
}

TEST(ErrorDocument, IsNoOtherDocument) {
  for (const char* body :
       {"", "Bad gateway", "<html><body>502</body></html>", "<Error/>", "<Error><Code/></Error>",
        "<ErrorResponse/>", "{\"Code\":\"A\"}", "<!DOCTYPE html><Error><Code>A</Code></Error>"}) {
    EXPECT_FALSE(parse_error_document(body)) << body;
  }
}

}  // namespace
}  // namespace isocost
