#include "loader/report/mixture_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace isocost {
namespace {

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(MixtureSvg, DrawsSharesAndPassesOfEachSource) {
  MixtureCourse course;
  course.edges = {0, 10, 20};
  course.sources = {{"a<b", 40, {0, 80, 80}, 9}, {"rest", 100, {0, 0, 80}, MixtureCourse::kNever}};
  const std::string svg = draw_mixture(course, "mixture.toml");
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::HasSubstr("a&lt;b (read 2 times)"));
  EXPECT_THAT(svg, testing::HasSubstr("rest (read 0.8 times)"));
  EXPECT_THAT(svg, testing::HasSubstr("a&lt;b: 100.0 % of steps 0 to 9"));
  EXPECT_THAT(svg, testing::HasSubstr("rest: 100.0 % of steps 10 to 19"));
  // The background, one source in each of two columns, and two in the legend.
  EXPECT_EQ(occurrences(svg, "<rect "), 1U + 2U + 2U);
  EXPECT_EQ(occurrences(svg, "<polyline "), 2U);
}

TEST(MixtureSvg, LeavesOutNothingWithoutAWord) {
  MixtureCourse course;
  course.edges = {0, 1};
  for (int i = 0; i < 23; ++i) course.sources.push_back({"s" + std::to_string(i), 1, {0, 1}});
  EXPECT_THAT(draw_mixture(course, ""), testing::HasSubstr("and 3 more"));
}

}  // namespace
}  // namespace isocost
