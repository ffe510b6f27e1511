#include "loader/plan/mixture/mixture_course.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace isocost {
namespace {

MixtureOptions two_sources() {
  MixtureOptions options;
  options.global_batch_size = 8;
  options.sources = {{"large", 1000, 1, {{{0, 3}}}, 0}, {"small", 10, 2, {{{0, 1}, {40, 3}}}, 0}};
  return options;
}

TEST(MixtureCourse, HasWhatEachSourceGaveBeforeEachEdge) {
  const auto mixture = Mixture::create(two_sources()).value();
  const MixtureCourse course = course_of(*mixture, 80, 5).value();
  EXPECT_EQ(course.edges, (std::vector<std::uint64_t>{0, 20, 40, 60, 80}));
  ASSERT_EQ(course.sources.size(), 2U);
  EXPECT_EQ(course.sources[0].drawn, (std::vector<std::uint64_t>{0, 120, 240, 320, 400}));
  EXPECT_EQ(course.sources[1].drawn, (std::vector<std::uint64_t>{0, 40, 80, 160, 240}));
  EXPECT_EQ(course.sources[1].ended_with, MixtureCourse::kNever);
  for (const MixtureCourse::Source& source : course.sources) {
    for (std::size_t e = 0; e + 1 < course.edges.size(); ++e) {
      std::uint64_t sum = 0;
      for (std::uint64_t position = course.edges[e]; position < course.edges[e + 1]; ++position) {
        sum += mixture->draws(position).counts[source.name == "large" ? 0 : 1];
      }
      EXPECT_EQ(source.drawn[e + 1] - source.drawn[e], sum);
    }
  }
}

TEST(MixtureCourse, NamesTheStepWithWhichASourceEnds) {
  MixtureOptions options = two_sources();
  options.sources[1].epochs = 4;  // 40 samples, two a step
  const auto mixture = Mixture::create(options).value();
  const MixtureCourse course = course_of(*mixture, 30, 4).value();
  EXPECT_EQ(course.sources[1].ended_with, 19U);
  EXPECT_EQ(course.sources[1].drawn, (std::vector<std::uint64_t>{0, 20, 40, 40}));
  EXPECT_EQ(course.sources[0].drawn.back(), 30U * 8U - 40U);
}

TEST(MixtureCourse, GoesOverTheLengthOrBeyondTheLastBreakpoint) {
  MixtureOptions options = two_sources();
  EXPECT_EQ(positions_to_show(*Mixture::create(options).value()), 1000U);
  options.sources[0].schedule.points.push_back({20'000, 1});
  EXPECT_EQ(positions_to_show(*Mixture::create(options).value()), 25'000U);
  options.steps = 7;
  const auto limited = Mixture::create(options).value();
  EXPECT_EQ(positions_to_show(*limited), 7U);
  EXPECT_EQ(course_of(*limited, 7).value().edges.size(), 8U);  // no edge within a step
}

}  // namespace
}  // namespace isocost
