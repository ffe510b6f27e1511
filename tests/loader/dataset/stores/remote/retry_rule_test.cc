#include "loader/dataset/stores/remote/internal/retry_rule.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace isocost {
namespace {

using std::chrono::milliseconds;

Result<HttpResponse> status(int code, HttpHeaders headers = {}) {
  return HttpResponse{.status = code, .headers = std::move(headers), .body = ""};
}

Result<HttpResponse> error(ErrorCode code) { return Error(code, "an error"); }

TEST(RetryRule, RepeatsWhatMayPass) {
  for (const int code : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(may_pass(status(code))) << code;
  for (const int code : {200, 206, 301, 400, 401, 403, 404, 412, 416, 501, 505}) {
    EXPECT_FALSE(may_pass(status(code))) << code;
  }
  EXPECT_TRUE(may_pass(error(ErrorCode::kUnavailable)));
  for (const ErrorCode code : {ErrorCode::kIo, ErrorCode::kCancelled, ErrorCode::kNotFound,
                               ErrorCode::kResourceExhausted, ErrorCode::kInvalidArgument}) {
    EXPECT_FALSE(may_pass(error(code))) << error_code_name(code);
  }
}

TEST(RetryRule, KnowsWhoAsksToWait) {
  EXPECT_TRUE(asks_to_wait(status(429)));
  EXPECT_TRUE(asks_to_wait(status(503)));
  EXPECT_FALSE(asks_to_wait(status(500)));
  EXPECT_FALSE(asks_to_wait(error(ErrorCode::kUnavailable)));
}

// The longest of many pauses after an attempt of this number.
milliseconds longest_pause(int times) {
  Random random(1);
  milliseconds longest(0);
  for (int i = 0; i < 5000; ++i) {
    longest = std::max(longest, retry_pause(status(500), times, 0, random));
  }
  return longest;
}

TEST(RetryRule, DoublesThePauseUpToTenSeconds) {
  EXPECT_GT(longest_pause(1), milliseconds(90));
  EXPECT_LE(longest_pause(1), milliseconds(100));
  EXPECT_GT(longest_pause(2), milliseconds(180));
  EXPECT_LE(longest_pause(2), milliseconds(200));
  EXPECT_LE(longest_pause(7), milliseconds(6400));
  EXPECT_GT(longest_pause(8), milliseconds(9000));
  EXPECT_LE(longest_pause(8), milliseconds(10000));
  EXPECT_LE(longest_pause(1'000'000), milliseconds(10000));
}

TEST(RetryRule, DrawsThePauseFromTheWholeOfItsLength) {
  Random random(1);
  milliseconds shortest(1000);
  for (int i = 0; i < 1000; ++i) {
    shortest = std::min(shortest, retry_pause(error(ErrorCode::kUnavailable), 5, 0, random));
  }
  EXPECT_LT(shortest, milliseconds(50));
}

TEST(RetryRule, WaitsAtLeastAsLongAsTheServerAsks) {
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const milliseconds pause = retry_pause(status(503, {{"retry-after", "3"}}), 1, 0, random);
    EXPECT_GE(pause, milliseconds(3000));
    EXPECT_LE(pause, milliseconds(3100));
  }
}

TEST(RetryRule, ComparesADateWithTheServersClock) {
  Random random(1);
  const auto response = status(429, {{"date", "Sun, 06 Nov 1994 08:49:37 GMT"},
                                     {"retry-after", "Sun, 06 Nov 1994 08:49:41 GMT"}});
  constexpr std::int64_t kFarLater = 2'000'000'000;
  EXPECT_GE(retry_pause(response, 1, kFarLater, random), milliseconds(4000));
  EXPECT_LE(retry_pause(response, 1, kFarLater, random), milliseconds(4100));
}

}  // namespace
}  // namespace isocost
