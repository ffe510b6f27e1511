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

class PathPatternTest : public testing::Test {
 protected:
  PathPatternTest() {
    for (const char* name : {"a.tar", "b.tar", "note.txt", ".hidden.tar", "en/0.tar", "en/1.tar",
                             "fr/0.tar", "fr/old/2.tar", ".cache/3.tar"}) {
      write_file(scratch_ / name, "x");
    }
    fs::create_directory_symlink("fr", scratch_ / "linked");
    fs::create_symlink("nowhere", scratch_ / "en/gone.tar");
  }
  std::vector<std::string> matched(std::string_view pattern) const {
    return PatternWalk(scratch_.path(), kMost).match(PathPattern(pattern)).value();
  }

  const ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
};

TEST_F(PathPatternTest, MatchesNames) {
  EXPECT_THAT(matched("*.tar"), ElementsAre("a.tar", "b.tar"));
  EXPECT_THAT(matched("?.tar"), ElementsAre("a.tar", "b.tar"));
  EXPECT_THAT(matched("[!a].tar"), ElementsAre("b.tar"));
  EXPECT_THAT(matched("[a-b].tar"), ElementsAre("a.tar", "b.tar"));
  EXPECT_THAT(matched("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(matched("*.zip"), IsEmpty());
  EXPECT_THAT(matched("nowhere/*.tar"), IsEmpty());
}

TEST_F(PathPatternTest, MatchesDirectoriesToo) {
  EXPECT_THAT(matched("*/0.tar"), ElementsAre("en/0.tar", "fr/0.tar", "linked/0.tar"));
  EXPECT_THAT(matched("en/*.tar"), ElementsAre("en/0.tar", "en/1.tar", "en/gone.tar"))
      << "a broken link is lost, not absent";
}

TEST_F(PathPatternTest, AnyDirectoriesAreNoneOrManyButNoLinksAndNoHiddenOnes) {
  EXPECT_THAT(matched("**/*.tar"), ElementsAre("a.tar", "b.tar", "en/0.tar", "en/1.tar",
                                               "en/gone.tar", "fr/0.tar", "fr/old/2.tar"));
  EXPECT_THAT(matched("fr/**/2.tar"), ElementsAre("fr/old/2.tar"));
  EXPECT_THAT(matched("**/old/*"), ElementsAre("fr/old/2.tar"));
  EXPECT_THAT(matched("fr/**"), ElementsAre("fr/0.tar", "fr/old/2.tar"));
}

TEST_F(PathPatternTest, TooManyFilesAreRefused) {
  const PathPattern pattern("**/*.tar");
  const auto all = PatternWalk(scratch_.path(), 6).match(pattern);
  ASSERT_FALSE(all.has_value());
  EXPECT_EQ(all.error().code(), ErrorCode::kResourceExhausted);
  PatternWalk enough(scratch_.path(), 7);
  EXPECT_TRUE(enough.match(pattern).has_value());
  EXPECT_FALSE(enough.match(pattern).has_value()) << "all patterns together may match so many";
}

// A pattern means the files that it finds also once they are gone.
TEST_F(PathPatternTest, MeansWhatItFinds) {
  for (const char* pattern : {"*.tar", "?.tar", "[!a].tar", "*/0.tar", "**/*.tar", "fr/**", "**",
                              "fr/**/2.tar", "**/old/*", "en/*.tar"}) {
    for (const std::string& name : matched(pattern)) {
      EXPECT_TRUE(PathPattern(pattern).matches(name)) << pattern << " " << name;
    }
  }
  EXPECT_FALSE(PathPattern("*.tar").matches("en/0.tar"));
  EXPECT_FALSE(PathPattern("*/*.tar").matches("a.tar"));
  EXPECT_FALSE(PathPattern("*.tar").matches(".hidden.tar"));
  EXPECT_FALSE(PathPattern("**/*.tar").matches(".cache/3.tar"));
  EXPECT_FALSE(PathPattern("fr/**").matches("fr"));
  EXPECT_TRUE(PathPattern("./fr//*.tar").matches("fr/0.tar"));
}

TEST_F(PathPatternTest, AFileThatIsFoundInSeveralWaysIsFoundOnce) {
  write_file(scratch_ / "fr/fr/fr/0.tar", "x");
  EXPECT_THAT(matched("**/fr/**/0.tar"), ElementsAre("fr/0.tar", "fr/fr/fr/0.tar"));
}

TEST_F(PathPatternTest, ADirectoryWithAShardsNameIsFound) {
  write_file(scratch_ / "en/folder.tar/0.txt", "x");
  EXPECT_THAT(matched("en/f*"), ElementsAre("en/folder.tar")) << "it is a lost shard";
}

// The C library matches in the process's locale, which Python sets and the programs do not.
TEST_F(PathPatternTest, CharactersAreThoseOfUtf8) {
  for (const char* name : {"u/\xC3\xA9.tar", "u/\xE9.tar"}) write_file(scratch_ / name, "x");
  EXPECT_THAT(matched("u/?.tar"), ElementsAre("u/\xC3\xA9.tar", "u/\xE9.tar"));
}

TEST_F(PathPatternTest, ABackslashIsAnOrdinaryCharacter) {
  write_file(scratch_ / "w\\x/0.tar", "x");
  EXPECT_THAT(matched("w\\x/*.tar"), ElementsAre("w\\x/0.tar"));
  EXPECT_TRUE(PathPattern("w\\x/*.tar").matches("w\\x/1.tar"));
}

}  // namespace
}  // namespace isocost
