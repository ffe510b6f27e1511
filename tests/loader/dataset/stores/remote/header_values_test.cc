#include "loader/dataset/stores/remote/header_values.h"

#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

using std::chrono::seconds;

// 6 November 1994, 08:49:37: the example of RFC 9110.
constexpr std::int64_t kExample = 784111777;

TEST(ContentRange, GivesRangeAndTotal) {
  const auto parsed = parse_content_range("bytes 10-19/100");
  ASSERT_TRUE(parsed && parsed->range && parsed->total);
  EXPECT_EQ(parsed->range->begin, 10);
  EXPECT_EQ(parsed->range->end, 20);
  EXPECT_EQ(*parsed->total, 100);
}

TEST(ContentRange, LeavesOutWhatTheServerDoesNotSay) {
  const auto no_total = parse_content_range("Bytes 0-0/*");
  ASSERT_TRUE(no_total && no_total->range);
  EXPECT_FALSE(no_total->total);
  const auto no_range = parse_content_range("bytes */0");
  ASSERT_TRUE(no_range && no_range->total);
  EXPECT_FALSE(no_range->range);
  EXPECT_EQ(*no_range->total, 0);
}

TEST(ContentRange, RefusesWhatIsNone) {
  for (const std::string value :
       {"", "bytes", "bytes ", "bytes 0-1", "bytes 5-4/10", "bytes 0-10/10", "bytes -5/10",
        "bytes 0-/10", "bytes +0-1/10", "bytes 0-1/-1", "bytes 0-1/", "bytes */*", "items 0-1/10",
        "bytes 0 - 1/10", "bytes 0-9223372036854775807/*", "bytes 0-1/9223372036854775808",
        "bytes 0-1/10/10", "bytes 0-1/10, 2-3/10"}) {
    EXPECT_FALSE(parse_content_range(value)) << value;
  }
}

TEST(ContentLength, IsDigitsAlone) {
  EXPECT_EQ(parse_content_length(" 42 "), 42);
  for (const std::string value : {"", "-1", "+1", "1 2", "0x10", "9223372036854775808", "1, 1"}) {
    EXPECT_FALSE(parse_content_length(value)) << value;
  }
}

TEST(HttpDate, ReadsTheThreeForms) {
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), kExample);
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), kExample);
  EXPECT_EQ(parse_http_date("Sun Nov  6 08:49:37 1994"), kExample);
}

TEST(HttpDate, RefusesWhatIsNone) {
  for (const std::string value :
       {"", "never", "20041109", "784111777", "Sun, 06 Nov 1994", "Thu, 01 Jan 1970 00:00:00 +0100",
        "Sun, 99 Nov 1994 08:49:37 GMT"}) {
    EXPECT_FALSE(parse_http_date(value)) << value;
  }
  EXPECT_FALSE(parse_http_date(std::string("Sun, 06 Nov 1994 08:49:37 GMT\0", 30)));
  EXPECT_FALSE(parse_http_date(std::string(1 << 20, ':')));
}

TEST(RetryAfter, IsSecondsOrADate) {
  EXPECT_EQ(parse_retry_after("7", 0), seconds(7));
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", kExample - 5), seconds(5));
}

TEST(RetryAfter, IsNeitherNegativeNorOverADay) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", kExample + 5), seconds(0));
  EXPECT_EQ(parse_retry_after("99999999999999999999999", 0), seconds(86400));
  EXPECT_EQ(parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", kExample), seconds(86400));
}

TEST(RetryAfter, RefusesWhatIsNeither) {
  for (const std::string value : {"", "-1", "soon", "1.5", "0x5"}) {
    EXPECT_FALSE(parse_retry_after(value, kExample)) << value;
  }
}

TEST(StrongEtag, IsQuotedAndNotWeak) {
  EXPECT_TRUE(is_strong_etag("\"abc-2\""));
  EXPECT_TRUE(is_strong_etag("\"\""));
  for (const std::string value :
       {"", "\"", "abc", "W/\"abc\"", "\"a\"b\"", "\"a b\"", "\"a\nb\""}) {
    EXPECT_FALSE(is_strong_etag(value)) << value;
  }
}

}  // namespace
}  // namespace isocost
