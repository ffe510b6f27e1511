#include "loader/dataset/stores/s3/internal/ini_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(IniFile, HasSectionsOfValues) {
  const IniSections sections = parse_ini(
                                   "\xEF\xBB\xBF# comment\r\n[default]\r\n"
                                   "AWS_Access_Key_Id = AK ; not a comment\r\n"
                                   "  ; comment\n\nregion: eu-west-1\nempty =\n"
                                   "[profile a b]\n  region=x=y\n")
                                   .value();
  EXPECT_THAT(sections.at("default"),
              UnorderedElementsAre(Pair("aws_access_key_id", "AK ; not a comment"),
                                   Pair("region", "eu-west-1"), Pair("empty", "")));
  EXPECT_THAT(sections.at("profile a b"), UnorderedElementsAre(Pair("region", "x=y")));
}

TEST(IniFile, HasValuesBelowANameAndLongValues) {
  const IniSections sections =
      parse_ini(
          "[services minio]\ns3 =\n  endpoint_url = http://minio:9000\n  max = 2\nsts=\n"
          "  endpoint_url = http://sts\nlong = a\n  b\n")
          .value();
  EXPECT_THAT(sections.at("services minio"),
              UnorderedElementsAre(Pair("s3", ""), Pair("s3.endpoint_url", "http://minio:9000"),
                                   Pair("s3.max", "2"), Pair("sts", ""),
                                   Pair("sts.endpoint_url", "http://sts"), Pair("long", "a\nb")));
}

TEST(IniFile, RefusesLinesByNumberAndDoesNotShowThem) {
  for (const char* text :
       {"secret = 1\n", "[a]\nsecret\n", "[a]\n= secret\n", "[a]\nx=secret\nX=secret\n",
        "[a]\nx=1\n[a]\n", "[]\nsecret", "[a\nsecret=1", "[a]\nx=\n  secret\n"}) {
    const Result<IniSections> sections = parse_ini(text);
    ASSERT_FALSE(sections) << text;
    EXPECT_EQ(sections.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(sections.error().message(), HasSubstr("line "));
    EXPECT_THAT(sections.error().message(), Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace isocost
