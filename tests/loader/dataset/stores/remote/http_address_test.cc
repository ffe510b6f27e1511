#include "loader/dataset/stores/remote/internal/http_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isocost {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HttpAddress, HasPartsAndHidesSecrets) {
  const auto address =
      parse_http_address("HTTPS://me%40x:se%3Acret@Host.Example:8443/a/../b%20c.tar?X-Sig=1#part");
  ASSERT_TRUE(address) << address.error().message();
  EXPECT_EQ(address->scheme, "https");
  EXPECT_EQ(address->host, "host.example");
  EXPECT_EQ(address->port, "8443");
  EXPECT_EQ(address->user, "me@x");
  EXPECT_EQ(address->password, "se:cret");
  EXPECT_EQ(address->origin(), "https://host.example:8443");
  EXPECT_EQ(address->url(), "https://host.example:8443/a/../b%20c.tar?X-Sig=1");
  EXPECT_EQ(address->shown(), "https://host.example:8443/a/../b%20c.tar");
}

TEST(HttpAddress, LeavesTheOwnPortOut) {
  EXPECT_EQ(parse_http_address("http://h:80/a")->origin(), "http://h");
  EXPECT_EQ(parse_http_address("https://h:80/a")->origin(), "https://h:80");
  EXPECT_EQ(parse_http_address("http://[::1]:8080/a")->origin(), "http://[::1]:8080");
  EXPECT_EQ(parse_http_address("http://h")->url(), "http://h/");
}

TEST(HttpAddress, RefusesWhatIsNoneWithoutShowingIt) {
  for (const std::string url : {"", "host/secret", "ftp://host/secret", "http:///secret",
                                "http:/host/secret", "http://ho st/secret", "http://host/se cret",
                                "http://u:secret@host:99999/", "file:///secret", "https://"}) {
    const auto address = parse_http_address(url);
    ASSERT_FALSE(address) << url;
    EXPECT_EQ(address.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(address.error().message(), Not(HasSubstr("secret")));
  }
  EXPECT_FALSE(parse_http_address(std::string("http://host/a\0b", 15)));
}

TEST(HttpAddress, FollowsALocation) {
  const HttpAddress from = parse_http_address("https://u:p@h/a/b?secret=1").value();
  EXPECT_EQ(follow_location(from, "c d")->url(), "https://h/a/c%20d");
  EXPECT_EQ(follow_location(from, "/x?y=1")->url(), "https://h/x?y=1");
  EXPECT_EQ(follow_location(from, "//other/x")->url(), "https://other/x");
  EXPECT_EQ(follow_location(from, "http://h/x")->url(), "http://h/x");
  EXPECT_EQ(follow_location(from, "/x")->user, "");
  EXPECT_FALSE(follow_location(from, "file:///etc/passwd"));
  EXPECT_FALSE(follow_location(from, "gopher://h/x"));
}

TEST(HttpAddress, EncodesThePathOfAKey) {
  EXPECT_EQ(encode_path("a/b c+d/\xc3\xa9?#%&=.tar"), "a/b%20c%2Bd/%C3%A9%3F%23%25%26%3D.tar");
  EXPECT_EQ(encode_path("AZaz09-._~"), "AZaz09-._~");
}

}  // namespace
}  // namespace isocost
