#include "loader/dataset/stores/remote/internal/server_trouble.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

using std::chrono::seconds;

const MonotonicTime kStart(std::chrono::hours(1));

Result<HttpResponse> status(int code) {
  return HttpResponse{.status = code, .headers = {}, .body = ""};
}

TEST(ServerTrouble, IsLoggedOnceWhenItBegins) {
  ServerTrouble trouble;
  EXPECT_FALSE(trouble.note(status(200), "http://h/a", kStart));
  const auto line = trouble.note(status(503), "http://h/a", kStart);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->level, LogLevel::kWarning);
  EXPECT_EQ(line->text,
            "http://h/a: the server asks to send less (status 503); requests are repeated with "
            "pauses, and fewer at once");
  EXPECT_FALSE(trouble.note(status(429), "http://h/a", kStart + seconds(1)));
  EXPECT_FALSE(
      trouble.note(Error(ErrorCode::kUnavailable, "gone"), "http://h/a", kStart + seconds(2)));
}

TEST(ServerTrouble, NamesAnErrorOfTheConnection) {
  ServerTrouble trouble;
  const auto line =
      trouble.note(Error(ErrorCode::kUnavailable, "http://h/a: refused"), "http://h/a", kStart);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->text, "http://h/a: refused; requests are repeated with pauses");
}

TEST(ServerTrouble, EndsWhenTheServerHasAnsweredForAWhile) {
  ServerTrouble trouble;
  ASSERT_TRUE(trouble.note(status(500), "http://h/a", kStart));
  EXPECT_FALSE(trouble.note(status(200), "http://h/a", kStart + seconds(9)));
  EXPECT_FALSE(trouble.note(status(500), "http://h/a", kStart + seconds(9)));
  EXPECT_FALSE(trouble.note(status(200), "http://h/a", kStart + seconds(18)));
  const auto line = trouble.note(status(404), "http://h/a", kStart + seconds(20));
  ASSERT_TRUE(line);
  EXPECT_EQ(line->level, LogLevel::kInfo);
  EXPECT_EQ(line->text,
            "http://h/a: the server answers again, 9 s after it began to refuse requests");
  EXPECT_TRUE(trouble.note(status(503), "http://h/a", kStart + seconds(21)));
}

TEST(ServerTrouble, IsNoErrorOfTheRequest) {
  ServerTrouble trouble;
  EXPECT_FALSE(trouble.note(Error(ErrorCode::kIo, "TLS"), "http://h/a", kStart));
  EXPECT_FALSE(trouble.note(Error(ErrorCode::kCancelled, "stopped"), "http://h/a", kStart));
}

}  // namespace
}  // namespace isocost
