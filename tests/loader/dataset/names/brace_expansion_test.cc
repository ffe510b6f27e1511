// The words are those that bash 5.2 and braceexpand 0.1.7 give.

#include "loader/dataset/names/brace_expansion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/read_file.h"
#include "base/result.h"

namespace isocost {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kMost = 1000;

std::vector<std::string> words(std::string_view text) { return expand_braces(text, kMost).value(); }

std::string error_of(std::string_view text, std::size_t most = kMost) {
  const auto expanded = expand_braces(text, most);
  return expanded ? "" : std::string(expanded.error().message());
}

TEST(BraceExpansion, GivesWhatBashGives) {
  EXPECT_THAT(words("plain.tar"), ElementsAre("plain.tar"));
  EXPECT_THAT(words("a{b,c}d"), ElementsAre("abd", "acd"));
  EXPECT_THAT(words("{a,b}{1..2}"), ElementsAre("a1", "a2", "b1", "b2"));
  EXPECT_THAT(words("x{,y}"), ElementsAre("x", "xy"));
  EXPECT_THAT(words("{a,b{c,d}}"), ElementsAre("a", "bc", "bd"));
  EXPECT_THAT(words("{{a,b},c}"), ElementsAre("a", "b", "c"));
}

TEST(BraceExpansion, Counts) {
  EXPECT_THAT(words("{8..11}"), ElementsAre("8", "9", "10", "11"));
  EXPECT_THAT(words("s-{000..002}.tar"), ElementsAre("s-000.tar", "s-001.tar", "s-002.tar"));
  EXPECT_THAT(words("{08..10}"), ElementsAre("08", "09", "10"));
  EXPECT_THAT(words("{3..1}"), ElementsAre("3", "2", "1"));
  EXPECT_THAT(words("{0..9..4}"), ElementsAre("0", "4", "8"));
  EXPECT_THAT(words("{9..0..4}"), ElementsAre("9", "5", "1"));
  EXPECT_THAT(words("{-1..1}"), ElementsAre("-1", "0", "1"));
  EXPECT_THAT(words("{-01..1}"), ElementsAre("-01", "000", "001"));
  EXPECT_THAT(words("{a..e..2}"), ElementsAre("a", "c", "e"));
}

TEST(BraceExpansion, LeavesOtherPairs) {
  EXPECT_THAT(words("{}"), ElementsAre("{}"));
  EXPECT_THAT(words("{a}"), ElementsAre("{a}"));
  EXPECT_THAT(words("{a..10}"), ElementsAre("{a..10}"));
  EXPECT_THAT(words("{1..}"), ElementsAre("{1..}"));
  EXPECT_THAT(words("{x{1,2}}"), ElementsAre("{x1}", "{x2}"));
}

// braceexpand itself wrote the words: formats/golden/make.py. Two kinds differ on purpose:
// braceexpand removes backslashes, which are part of a file's name or of a pattern here, and takes
// "}{" as it is.
TEST(BraceExpansion, GivesWhatBraceexpandGives) {
  const std::filesystem::path file =
      std::filesystem::path(ISOCOST_SOURCE_DIR) / "tests/loader/dataset/formats/golden/braces.json";
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  const auto golden = nlohmann::json::parse(read_file("golden", file, kMostBytes).value());
  for (const auto& [pattern, expected] : golden.items()) {
    const auto found = expand_braces(pattern, kMost);
    if (pattern == "}{" || pattern.find('\\') != std::string::npos) continue;
    EXPECT_EQ(found.has_value(), !expected.is_null()) << pattern;
    if (found && !expected.is_null()) {
      EXPECT_EQ(*found, expected.get<std::vector<std::string>>()) << pattern;
    }
  }
}

TEST(BraceExpansion, NamesABraceWithoutItsOther) {
  EXPECT_THAT(error_of("a{b"), HasSubstr("the brace at '{b' has no other one"));
  EXPECT_THAT(error_of("ab}"), HasSubstr("the brace at '}' has no other one"));
}

TEST(BraceExpansion, RefusesTooManyWordsBeforeItMakesThem) {
  EXPECT_THAT(error_of("{0..1000}"), HasSubstr("over 1000 names"));
  EXPECT_THAT(error_of("{0..9}{0..9}{0..9}{0..9}"), HasSubstr("over 1000 names"));
  EXPECT_THAT(error_of("{-9007199254740991..9007199254740991}"), HasSubstr("over 1000 names"));
  EXPECT_EQ(error_of("{0..999}"), "");
  EXPECT_THAT(error_of("{a,b,c}", 2), HasSubstr("over 2 names"));
}

}  // namespace
}  // namespace isocost
