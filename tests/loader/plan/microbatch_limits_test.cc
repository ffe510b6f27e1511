#include "loader/plan/microbatch_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/plan/microbatch_count.h"

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::pair<const char*, std::int64_t PlanOptions::*> kOptions[] = {
    {"max_tokens", &PlanOptions::max_tokens},
    {"max_vision_tokens", &PlanOptions::max_vision_tokens},
    {"max_memory", &PlanOptions::max_memory},
    {"microbatch_memory", &PlanOptions::microbatch_memory}};

Load load_of(std::int64_t tokens, std::int64_t patches, std::int64_t bytes) {
  Load load;
  load[CostModule::kLlm].units = tokens;
  load[CostModule::kVision].units = patches;
  load.tensor_bytes = bytes;
  return load;
}

MicrobatchLimits limits_of(const PlanOptions& options) {
  return MicrobatchLimits::create(options, CostProfile::stated_default()).value();
}

TEST(MicrobatchLimits, AreCheckedByName) {
  for (const auto& [name, option] : kOptions) {
    PlanOptions options;
    EXPECT_FALSE(MicrobatchLimits::any_given(options));
    EXPECT_EQ(fixed_microbatches(options), 4);
    options.*option = -1;
    EXPECT_THAT(options.validate().error().message(), StartsWith(name));
    options.*option = 100;
    EXPECT_TRUE(MicrobatchLimits::any_given(options));
    EXPECT_EQ(fixed_microbatches(options), 0);
    EXPECT_TRUE(options.validate());
    options.balance = BalancePolicy::kTokens;
    EXPECT_EQ(options.validate().error().message(),
              std::string(name) + ": only balance = cost keeps a limit of a microbatch");
  }
}

TEST(MicrobatchLimits, NameTheFirstThatASampleExceeds) {
  const Load load = load_of(50, 60, 70);
  for (const auto& [name, option] : kOptions) {
    PlanOptions options;
    options.*option = 1;
    const MicrobatchLimits limits = limits_of(options);
    EXPECT_FALSE(limits.holds(load)) << name;
    EXPECT_THAT(limits.why_too_large(load).value_or(""), HasSubstr(name));
    EXPECT_TRUE(limits.holds({})) << name;
  }
  EXPECT_TRUE(MicrobatchLimits().holds(load));
}

TEST(MicrobatchLimits, CountTheMicrobatchesThatSumsAndLargeSamplesNeed) {
  PlanOptions options;
  options.max_tokens = 10;
  options.max_vision_tokens = 100;
  const MicrobatchLimits limits = limits_of(options);
  EXPECT_EQ(limits.least_microbatches({load_of(5, 0, 0), load_of(5, 0, 0), load_of(1, 0, 0)}), 2);
  EXPECT_EQ(limits.least_microbatches({load_of(6, 0, 0), load_of(6, 0, 0), load_of(6, 0, 0)}), 3);
  EXPECT_EQ(limits.least_microbatches({load_of(1, 150, 0), load_of(1, 100, 0)}), 2);
  EXPECT_EQ(MicrobatchLimits().least_microbatches({load_of(6, 0, 0)}), 0);
}

TEST(MicrobatchLimits, FillAMicrobatchUntilOneHasNoRoom) {
  PlanOptions options;
  options.max_tokens = 10;
  options.microbatch_memory = 100;
  const MicrobatchLimits limits = limits_of(options);
  MicrobatchRoom room(limits);
  EXPECT_TRUE(room.add(load_of(4, 0, 60)));
  EXPECT_TRUE(room.add(load_of(6, 0, 40)));
  EXPECT_FALSE(room.add(load_of(1, 0, 0)));
  MicrobatchRoom other(limits);
  EXPECT_TRUE(other.add(load_of(11, 0, 0))) << "a sample beyond a limit takes all of it";
  EXPECT_FALSE(other.add(load_of(1, 0, 0)));
}

// The hash goes into the state of a job, so it may not change.
TEST(MicrobatchLimits, EnterAHashInTheOrderOfBefore) {
  PlanOptions options;
  options.microbatch_memory = 7;
  options.max_vision_tokens = 5;
  Fingerprint expected;
  expected.add(std::int64_t{7});
  expected.add(std::string_view("max_vision_tokens"));
  expected.add(std::int64_t{5});
  Fingerprint hash;
  MicrobatchLimits::add_to(hash, options);
  EXPECT_EQ(hash.value(), expected.value());
}

}  // namespace
}  // namespace isocost
