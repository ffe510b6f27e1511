#include "loader/dataset/stores/remote/http_message.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

TEST(HttpResponse, GivesTheFirstValueOfAHeader) {
  const HttpResponse response{
      .status = 200, .headers = {{"etag", "\"a\""}, {"etag", "\"b\""}}, .body = ""};
  EXPECT_EQ(response.header("etag"), "\"a\"");
  EXPECT_EQ(response.header("content-type"), "");
}

}  // namespace
}  // namespace isocost
