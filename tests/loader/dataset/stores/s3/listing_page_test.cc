#include "loader/dataset/stores/s3/internal/listing_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace isocost {
namespace {

using testing::HasSubstr;

constexpr const char* kPage = R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name><Prefix>a</Prefix><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys>
  <IsTruncated>true</IsTruncated><NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
  <Contents><Key>a &amp; b.tar</Key><LastModified>2026-11-30T01:02:03.000Z</LastModified>
    <ETag>&quot;0123-7&quot;</ETag><Size>5000000000</Size><StorageClass>STANDARD</StorageClass>
    <Owner><ID>x</ID></Owner></Contents>
  <Contents><Key>a+%20.tar</Key><Size>0</Size></Contents>
  <CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>
</ListBucketResult>)";

std::string page_of(const std::string& contents, const std::string& before = "") {
  return before + "<ListBucketResult>" + contents + "</ListBucketResult>";
}

std::string problem(const std::string& xml) {
  const Result<ListingPage> page = parse_listing_page(xml);
  if (page) return "";
  EXPECT_EQ(page.error().code(), ErrorCode::kCorrupt);
  return page.error().message();
}

TEST(ListingPage, HasObjectsAndATokenForTheNext) {
  const ListingPage page = parse_listing_page(kPage).value();
  ASSERT_EQ(page.objects.size(), 2U);
  EXPECT_EQ(page.objects[0].key, "a & b.tar");
  EXPECT_EQ(
      page.objects[0].stamp,
      (ObjectStamp{.bytes = 5'000'000'000, .etag = "\"0123-7\"", .modified_s = 1'796'000'523}));
  EXPECT_EQ(page.objects[1].key, "a+%20.tar");
  EXPECT_EQ(page.objects[1].stamp, ObjectStamp());
  EXPECT_EQ(page.next_token, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
}

TEST(ListingPage, DecodesKeysWhereItSaysSo) {
  const ListingPage page =
      parse_listing_page(
          page_of("<Contents><Key>a+b%2B%01%E6%97%A5/c</Key><Size>1</Size></Contents>"
                  "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
                  "<NextContinuationToken>x</NextContinuationToken>"))
          .value();
  ASSERT_EQ(page.objects.size(), 1U);
  EXPECT_EQ(page.objects[0].key, "a b+\x01\xE6\x97\xA5/c");
  EXPECT_EQ(page.next_token, "");
}

TEST(ListingPage, MayBeEmpty) {
  EXPECT_TRUE(parse_listing_page(page_of("")).value().objects.empty());
}

TEST(ListingPage, RefusesWhatIsNoListing) {
  EXPECT_THAT(problem(""), HasSubstr("is no listing: it is no XML"));
  EXPECT_THAT(problem("<html><body>Sign in</body></html>"), HasSubstr("its root is 'html'"));
  EXPECT_THAT(problem(page_of("<Contents><Size>1</Size></Contents>")), HasSubstr("no key"));
  for (const char* size : {"", "-1", "1 ", "1e3", "99999999999999999999"}) {
    EXPECT_THAT(
        problem(page_of("<Contents><Key>a</Key><Size>" + std::string(size) + "</Size></Contents>")),
        HasSubstr("a size is '"))
        << size;
  }
  EXPECT_THAT(problem(page_of("<EncodingType>url</EncodingType>"
                              "<Contents><Key>a%</Key><Size>1</Size></Contents>")),
              HasSubstr("a '%' without"));
  EXPECT_THAT(problem(page_of("<IsTruncated>true</IsTruncated><NextMarker>a</NextMarker>")),
              HasSubstr("ListObjectsV2"));
}

TEST(ListingPage, RefusesEveryTruncatedPage) {
  const std::string page = kPage;
  for (std::size_t size = 0; size < page.size(); ++size) {
    EXPECT_THAT(problem(page.substr(0, size)), HasSubstr("is no XML")) << size;
  }
}

TEST(ListingPage, RefusesEntitiesBeforeAnyIsExpanded) {
  std::string laughs = "<!DOCTYPE lolz [<!ENTITY l0 \"lol\">";
  for (int i = 1; i < 10; ++i) {
    laughs += "<!ENTITY l" + std::to_string(i) + " \"";
    for (int k = 0; k < 10; ++k) laughs += "&l" + std::to_string(i - 1) + ";";
    laughs += "\">";
  }
  laughs += "]>";
  EXPECT_THAT(problem(page_of("<Name>&l9;</Name>", laughs)), HasSubstr("declares a document type"));
  EXPECT_THAT(problem(page_of("<Name>&x;</Name>",
                              "<!DOCTYPE r [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>")),
              HasSubstr("declares a document type"));
  EXPECT_THAT(problem(page_of("", "<!DOCTYPE r SYSTEM \"http://localhost:1/x.dtd\">")),
              HasSubstr("declares a document type"));
  EXPECT_THAT(problem(page_of("<Name>&x;</Name>")), HasSubstr("is no XML"));
}

TEST(ListingPage, RefusesDepthElementsAndSizeBeyondItsLimits) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_THAT(problem(page_of(deep)), HasSubstr("nested too deeply"));
  std::string many;
  for (int i = 0; i < 250'000; ++i) many += "<a/>";
  EXPECT_THAT(problem(page_of(many)), HasSubstr("too many elements"));
  EXPECT_THAT(problem(page_of(std::string(std::size_t{17} << 20, 'x'))), HasSubstr("too large"));
}

}  // namespace
}  // namespace isocost
