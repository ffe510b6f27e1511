#include "loader/dataset/names/data_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace isocost {
namespace {

using testing::HasSubstr;

TEST(DataText, JoinsSeveral) {
  EXPECT_EQ(join_data(std::vector<std::string>{"a.tar", "b/*.tar"}).value(), "a.tar::b/*.tar");
  EXPECT_EQ(join_data(std::vector<std::string>{"we::ird.tar"}).value(), "we::ird.tar")
      << "alone, it may be a path";
}

TEST(DataText, RefusesWhatWouldBeTakenApart) {
  EXPECT_THAT(join_data(std::vector<std::string>{"a.tar", "b::c.tar"}).error().message(),
              HasSubstr("b::c.tar: '::' stands between texts; name this one in a file"));
  EXPECT_EQ(join_data({}).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(join_data(std::vector<std::string>{"a.tar", ""}).error().code(),
            ErrorCode::kInvalidArgument);
}

TEST(DataText, IsPrintableWithItsBytes) {
  EXPECT_EQ(printable_path("a\x1B[31m\n\xE9.tar"), "a?[31m?\xE9.tar");
}

TEST(DataText, IsShownShort) {
  EXPECT_EQ(shown_data("data/*.tar"), "data/*.tar");
  std::string many = "a.tar";
  for (int i = 0; i < 1000; ++i) many += "::b.tar";
  EXPECT_EQ(shown_data(many), "a.tar and 1000 more");
  EXPECT_LE(shown_data(std::string(100'000, 'x')).size(), 303U);
}

TEST(DataText, IsQuotedWhereAShellWouldChangeIt) {
  EXPECT_EQ(for_shell("data/shards-00.tar"), "data/shards-00.tar");
  EXPECT_EQ(for_shell("data/*.tar"), "'data/*.tar'");
  EXPECT_EQ(for_shell("data/{0..9}.tar"), "'data/{0..9}.tar'");
  EXPECT_EQ(for_shell("it's"), "'it'\\''s'");
  EXPECT_EQ(for_shell(""), "''");
}

}  // namespace
}  // namespace isocost
