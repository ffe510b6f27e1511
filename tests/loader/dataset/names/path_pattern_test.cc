#include "loader/dataset/names/internal/path_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/scratch_directory.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kMost = 100;

class PathPattern : public testing::Test {
 protected:
  PathPattern() {
    for (const char* name : {"a.tar", "b.tar", "note.txt", ".hidden.tar", "en/0.tar", "en/1.tar",
                             "fr/0.tar", "fr/old/2.tar", ".cache/3.tar"}) {
      write_file(scratch_ / name, "x");
    }
    fs::create_directory_symlink("fr", scratch_ / "linked");
    fs::create_symlink("nowhere", scratch_ / "en/gone.tar");
  }
  std::vector<std::string> matched(std::string_view pattern) const {
    return match_below(scratch_.path(), pattern, kMost).value();
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(PathPattern, MatchesNames) {
  EXPECT_THAT(matched("*.tar"), ElementsAre("a.tar", "b.tar"));
  EXPECT_THAT(matched("?.tar"), ElementsAre("a.tar", "b.tar"));
  EXPECT_THAT(matched("[!a].tar"), ElementsAre("b.tar"));
  EXPECT_THAT(matched("[a-b].tar"), ElementsAre("a.tar", "b.tar"));
  EXPECT_THAT(matched("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(matched("*.zip"), IsEmpty());
  EXPECT_THAT(matched("nowhere/*.tar"), IsEmpty());
}

TEST_F(PathPattern, MatchesDirectoriesToo) {
  EXPECT_THAT(matched("*/0.tar"), ElementsAre("en/0.tar", "fr/0.tar", "linked/0.tar"));
  EXPECT_THAT(matched("en/*.tar"), ElementsAre("en/0.tar", "en/1.tar", "en/gone.tar"))
      << "a broken link is lost, not absent";
}

TEST_F(PathPattern, AnyDirectoriesAreNoneOrManyButNoLinksAndNoHiddenOnes) {
  EXPECT_THAT(matched("**/*.tar"), ElementsAre("a.tar", "b.tar", "en/0.tar", "en/1.tar",
                                               "en/gone.tar", "fr/0.tar", "fr/old/2.tar"));
  EXPECT_THAT(matched("fr/**/2.tar"), ElementsAre("fr/old/2.tar"));
  EXPECT_THAT(matched("**/old/*"), ElementsAre("fr/old/2.tar"));
  EXPECT_THAT(matched("fr/**"), ElementsAre("fr/0.tar", "fr/old/2.tar"));
}

TEST_F(PathPattern, TooManyFilesAreRefused) {
  const auto all = match_below(scratch_.path(), "**/*.tar", 6);
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(all.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(match_below(scratch_.path(), "**/*.tar", 7).has_value());
}

// A pattern means the files that it finds also once they are gone.
TEST_F(PathPattern, MeansWhatItFinds) {
  for (const char* pattern : {"*.tar", "?.tar", "[!a].tar", "*/0.tar", "**/*.tar", "fr/**", "**",
                              "fr/**/2.tar", "**/old/*", "en/*.tar"}) {
    for (const std::string& name : matched(pattern)) {
      EXPECT_TRUE(matches_pattern(name, pattern)) << pattern << " " << name;
    }
  }
  EXPECT_FALSE(matches_pattern("en/0.tar", "*.tar"));
  EXPECT_FALSE(matches_pattern("a.tar", "*/*.tar"));
  EXPECT_FALSE(matches_pattern(".hidden.tar", "*.tar"));
  EXPECT_FALSE(matches_pattern(".cache/3.tar", "**/*.tar"));
  EXPECT_FALSE(matches_pattern("fr", "fr/**"));
}

}  // namespace
}  // namespace isocost
