#include "loader/plan/mixture/step_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace isocost {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SkippedSteps, ReadsSortsAndJoinsRanges) {
  const auto skipped = SkippedSteps::parse({"20-30", "5", "6-7", "25-40"}).value();
  EXPECT_THAT(skipped.ranges(), ElementsAre(StepRange{5, 7}, StepRange{20, 40}));
  EXPECT_THAT(skipped.texts(), ElementsAre("5-7", "20-40"));
  EXPECT_EQ(SkippedSteps::parse(skipped.texts()).value(), skipped);
  EXPECT_TRUE(SkippedSteps::parse({}).value().empty());
}

TEST(SkippedSteps, RefusesWhatNamesNoSteps) {
  for (const char* text : {"", "-", "5-", "-5", "a", "1-2-3", " 5", "4294967296", "1.5", "+3"}) {
    const auto read = SkippedSteps::parse({text});
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message(), HasSubstr("\"" + std::string(text) + "\""));
  }
  const auto reversed = SkippedSteps::parse({"10-5"});
  ASSERT_FALSE(reversed);
  EXPECT_THAT(reversed.error().message(), HasSubstr("write \"5-10\""));
}

SkippedSteps random_ranges(Random& random) {
  std::vector<std::string> texts;
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    const std::uint64_t first = random.below(30);
    texts.push_back(std::to_string(first) + "-" + std::to_string(first + random.below(5)));
  }
  return SkippedSteps::parse(texts).value();
}

// Returns the positions of the first steps, found by looking at each position.
std::vector<std::uint64_t> positions(const SkippedSteps& skipped, std::size_t count) {
  std::vector<std::uint64_t> found;
  for (std::uint64_t position = 0; found.size() < count; ++position) {
    bool left_out = false;
    for (const auto& [first, last] : skipped.ranges()) {
      left_out |= position >= first && position <= last;
    }
    if (!left_out) found.push_back(position);
  }
  return found;
}

TEST(SkippedSteps, PositionsAreThoseThatCountingFinds) {
  Random random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const SkippedSteps skipped = random_ranges(random);
    const SkippedSteps other = random_ranges(random);
    const auto own = positions(skipped, 50);
    const auto others = positions(other, 50);
    std::uint64_t differs = 50;
    for (std::uint64_t step = 0; step < 50; ++step) {
      EXPECT_EQ(skipped.position_of(step), own[step]);
      EXPECT_EQ(skipped.steps_before(own[step]), step);
      if (differs == 50 && own[step] != others[step]) differs = step;
    }
    EXPECT_EQ(skipped.first_difference(other, 50), differs);
    EXPECT_EQ(other.first_difference(skipped, 50), differs);
  }
}

}  // namespace
}  // namespace isocost
