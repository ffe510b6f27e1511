#include "loader/dataset/stores/remote/internal/range_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isocost {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr ByteRange kRange{10, 20};
const ObjectStamp kNoEtag{.bytes = 100, .etag = "", .modified_s = 784111777};
const ObjectStamp kStrong{.bytes = 100, .etag = "\"v1\"", .modified_s = 784111777};
const ObjectStamp kWeak{.bytes = 100, .etag = "W/\"v1\"", .modified_s = 784111777};

// With the ETag of kStrong, unless another one is given.
HttpResponse with_status(int status, HttpHeaders headers = {}, std::string body = "") {
  headers.emplace_back("etag", "\"v1\"");
  return {.status = status, .headers = std::move(headers), .body = std::move(body)};
}

HttpResponse part(HttpHeaders headers = {}, std::string body = "0123456789") {
  headers.emplace_back("content-range", "bytes 10-19/100");
  return with_status(206, std::move(headers), std::move(body));
}

HttpResponse part_without_etag(HttpHeaders headers = {}) {
  HttpResponse response = part(std::move(headers));
  std::erase_if(response.headers, [](const auto& header) { return header.first == "etag"; });
  return response;
}

void expect_error(const HttpResponse& response, ErrorCode code, const std::string& text,
                  const ObjectStamp& stamp = kStrong, ByteRange range = kRange) {
  const auto bytes = check_range_response("http://h/a", stamp, range, response);
  ASSERT_FALSE(bytes) << text;
  EXPECT_EQ(bytes.error().code(), code) << text;
  EXPECT_THAT(bytes.error().message(), HasSubstr("http://h/a: "));
  EXPECT_THAT(bytes.error().message(), HasSubstr(text));
}

void expect_bytes(const HttpResponse& response, std::int64_t expected,
                  const ObjectStamp& stamp = kStrong, ByteRange range = kRange) {
  const auto bytes = check_range_response("http://h/a", stamp, range, response);
  ASSERT_TRUE(bytes) << bytes.error().message();
  EXPECT_EQ(*bytes, expected);
}

TEST(RangeHeaders, ComparesAStrongEtagAlone) {
  EXPECT_THAT(range_headers(kStrong, kRange),
              ElementsAre(Pair("Range", "bytes=10-19"), Pair("If-Match", "\"v1\"")));
  EXPECT_THAT(range_headers(kWeak, kRange), ElementsAre(Pair("Range", "bytes=10-19")));
  EXPECT_THAT(range_headers(kNoEtag, kRange), ElementsAre(Pair("Range", "bytes=10-19")));
}

TEST(RangeResponse, HasTheBytesOfTheRange) {
  expect_bytes(part({{"etag", "\"v1\""}}), 10);
  expect_bytes(part({}, "0123"), 4);
  expect_bytes(with_status(206, {{"content-range", "bytes 10-12/100"}}, "012345"), 3);
  expect_bytes(with_status(206, {{"content-range", "bytes 10-19/*"}}, "0123456789"), 10);
}

TEST(RangeResponse, IsAnotherObjectsByTheEtag) {
  expect_error(part({{"etag", "\"v2\""}}), ErrorCode::kUnavailable,
               "the object has changed since it was listed or indexed: its ETag was \"v1\" and is "
               "\"v2\"");
  expect_error(with_status(412), ErrorCode::kUnavailable, "its ETag is no longer \"v1\"");
}

TEST(RangeResponse, IsAnotherObjectsByItsTimeIfThereIsNoStrongEtag) {
  expect_error(part({{"last-modified", "Sun, 06 Nov 1994 08:49:47 GMT"}}), ErrorCode::kUnavailable,
               "it was modified 10 s later", kWeak);
  expect_error(part({{"last-modified", "Sun, 06 Nov 1994 08:49:27 GMT"}}), ErrorCode::kUnavailable,
               "it was modified 10 s earlier", kNoEtag);
  // Servers of one object may disagree in its weak ETag, and in its time with a strong one.
  expect_bytes(part({{"etag", "W/\"v2\""}, {"last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"}}), 10,
               kWeak);
  expect_bytes(part({{"etag", "\"v1\""}, {"last-modified", "Sun, 06 Nov 1994 08:49:47 GMT"}}), 10);
}

TEST(RangeResponse, IsAnotherObjectsByItsWeakEtagIfThereIsNoTime) {
  const ObjectStamp timeless{.bytes = 100, .etag = "W/\"v1\"", .modified_s = 0};
  expect_error(part({{"etag", "W/\"v2\""}}), ErrorCode::kUnavailable, "its ETag was", timeless);
  expect_bytes(part({{"etag", "W/\"v1\""}}), 10, timeless);
}

TEST(RangeResponse, IsComparedByItsTimeIfItsStrongEtagIsLeftOut) {
  expect_bytes(part_without_etag({{"last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"}}), 10);
  expect_error(part_without_etag({{"last-modified", "Sun, 06 Nov 1994 08:49:47 GMT"}}),
               ErrorCode::kUnavailable, "it was modified 10 s later");
  // A proxy may make it weak.
  expect_bytes(part({{"etag", "W/\"v1\""}}), 10);
  expect_error(part({{"etag", "W/\"v2\""}}), ErrorCode::kUnavailable, "its ETag was");
}

TEST(RangeResponse, IsNobodysIfItLeavesOutWhatTheStampHas) {
  const ObjectStamp timeless{.bytes = 100, .etag = "\"v1\"", .modified_s = 0};
  for (const ObjectStamp& stamp : {kStrong, kWeak, kNoEtag, timeless}) {
    expect_error(part_without_etag(), ErrorCode::kIo,
                 "the server told the object's ETag or time at first, and now tells neither",
                 stamp);
  }
  expect_bytes(part_without_etag(), 10, {.bytes = 100, .etag = "", .modified_s = 0});
}

TEST(RangeResponse, IsAnotherObjectsByItsSize) {
  expect_error(with_status(206, {{"content-range", "bytes 10-19/101"}}, "0123456789"),
               ErrorCode::kUnavailable, "it had 100 bytes and has 101", kWeak);
  expect_error(with_status(416, {{"content-range", "bytes */9"}}), ErrorCode::kUnavailable,
               "it had 100 bytes and has 9");
  expect_error(with_status(200, {{"content-length", "99"}}), ErrorCode::kUnavailable,
               "it had 100 bytes and has 99", kWeak);
}

TEST(RangeResponse, MayNotHaveAnotherRange) {
  expect_error(with_status(206, {{"content-range", "bytes 11-19/100"}}), ErrorCode::kIo,
               "the server answers another range: bytes 10-19 were asked for, 11-19 came");
  expect_error(with_status(206, {{"content-range", "bytes 10-20/100"}}), ErrorCode::kIo,
               "the server answers another range");
  expect_error(with_status(206, {{"content-range", "chapters 1-2/3"}}), ErrorCode::kIo,
               "its Content-Range is none: 'chapters 1-2/3'");
  expect_error(with_status(206), ErrorCode::kIo, "its Content-Range is none");
}

TEST(RangeResponse, IsTheWholeObjectOnlyIfThatIsTheRange) {
  const std::string whole(100, 'x');
  expect_bytes(with_status(200, {}, whole), 100, kStrong, {0, 100});
  expect_bytes(with_status(200, {{"content-length", "100"}}, "x"), 1, kStrong, {0, 100});
  expect_error(with_status(200, {{"content-length", "100"}}, whole), ErrorCode::kIo,
               "the server ignores Range");
  expect_error(with_status(200, {}, whole), ErrorCode::kIo, "the server ignores Range", kStrong,
               {0, 99});
  expect_error(with_status(200, {{"etag", "\"v2\""}}, whole), ErrorCode::kUnavailable,
               "the object has changed", kStrong, {0, 100});
}

TEST(RangeResponse, MayNotBeAPage) {
  expect_error(with_status(200, {{"content-type", "Text/HTML; charset=utf-8"}}, "<html>"),
               ErrorCode::kIo, "a web page (text/html) came instead of the object", kStrong,
               {0, 100});
  expect_error(with_status(206, {{"content-type", "text/html"}}), ErrorCode::kIo, "a web page");
  // A server that does not know the type of a shard's extension may say anything.
  expect_bytes(part({{"content-type", "text/html"}}), 10);
}

TEST(RangeResponse, NamesOtherRefusals) {
  expect_error(with_status(416, {{"content-range", "bytes */100"}}), ErrorCode::kIo,
               "the server refuses a range of the object (status 416)");
  expect_error(with_status(416), ErrorCode::kIo, "refuses a range");
  expect_error(with_status(204), ErrorCode::kIo, "with status 204");
}

}  // namespace
}  // namespace isocost
