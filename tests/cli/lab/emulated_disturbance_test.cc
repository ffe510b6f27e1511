#include "cli/lab/emulated_disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace isocost::cli {
namespace {

using testing::HasSubstr;

constexpr SampleCost kLoad{.encoder_s = 2, .llm_s = 5, .encoder_units = 7, .llm_units = 11};

EmulatedDisturbance parsed(const DisturbanceText& text) {
  return parse_disturbance(text, 8).value();
}

std::string refusal(const DisturbanceText& text) {
  const auto disturbance = parse_disturbance(text, 8);
  return disturbance ? "accepted" : disturbance.error().message();
}

TEST(EmulatedDisturbance, NoneIsAskedFor) {
  const SampleCost same = disturbed(parsed({}), {.step = 3}, kLoad);
  EXPECT_EQ(same.encoder_s, 2);
  EXPECT_EQ(same.llm_s, 5);
}

TEST(EmulatedDisturbance, ASlowRankIsSlowInBothModulesForItsSteps) {
  const EmulatedDisturbance by = parsed({.slow_rank = "3:1.5@50-150"});
  for (const bool encoder : {true, false}) {
    const auto seconds = [&](std::size_t replica, std::size_t step) {
      return disturbed(by, {.encoder = encoder, .replica = replica, .step = step}, kLoad);
    };
    EXPECT_EQ(seconds(3, 49).llm_s, 5);
    EXPECT_EQ(seconds(3, 50).llm_s, 7.5);
    EXPECT_EQ(seconds(3, 149).encoder_s, 3);
    EXPECT_EQ(seconds(3, 150).encoder_s, 2);
    EXPECT_EQ(seconds(2, 100).llm_s, 5);
    EXPECT_EQ(seconds(3, 100).llm_units, 11);
  }
}

TEST(EmulatedDisturbance, StepsMayBeLeftOut) {
  const EmulatedDisturbance always = parsed({.slow_rank = "0:2"});
  EXPECT_EQ(always.slow.from, 0U);
  EXPECT_EQ(always.slow.until, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(parsed({.slow_rank = "0:2@7"}).slow.from, 7U);
}

TEST(EmulatedDisturbance, AModuleChangesForItsSteps) {
  const EmulatedDisturbance by = parsed({.changes = {"encoder:3@100", "llm:0.5@20-40"}});
  EXPECT_EQ(disturbed(by, {.step = 99}, kLoad).encoder_s, 2);
  EXPECT_EQ(disturbed(by, {.step = 100}, kLoad).encoder_s, 6);
  EXPECT_EQ(disturbed(by, {.step = 30}, kLoad).llm_s, 2.5);
  EXPECT_EQ(disturbed(by, {.step = 40}, kLoad).llm_s, 5);
}

TEST(EmulatedDisturbance, NoiseDependsOnSeedAndMicrobatchAlone) {
  EmulatedDisturbance by = parsed({.noise = 0.1});
  const auto draw = [&](std::size_t microbatch) {
    return disturbed(by, {.replica = 1, .step = 2, .microbatch = microbatch}, kLoad).llm_s;
  };
  const double first = draw(0);
  EXPECT_EQ(draw(0), first);
  EXPECT_NE(draw(1), first);
  by.seed = 1;
  EXPECT_NE(draw(0), first);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    const double factor = draw(static_cast<std::size_t>(i)) / kLoad.llm_s;
    sum += factor / kDraws;
    squares += factor * factor / kDraws;
  }
  EXPECT_NEAR(sum, 1, 0.01);
  EXPECT_NEAR(std::sqrt(squares - sum * sum), 0.1, 0.01);
}

TEST(EmulatedDisturbance, SecondsStayPositiveWhateverTheNoise) {
  const EmulatedDisturbance by = parsed({.noise = 10});
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_GT(disturbed(by, {.microbatch = i}, kLoad).llm_s, 0);
  }
}

TEST(EmulatedDisturbance, AnomaliesAreTheShareOfTheSamplesThatWasAskedFor) {
  std::vector<Load> samples(200);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i][CostModule::kLlm].add_sequence(static_cast<std::int64_t>(10 + 7 * (i * 37 % 200)));
  }
  std::set<std::int64_t> chosen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EmulatedAnomalies anomalies = parsed({.anomalies = "0.05:1.5"}).anomalies;
    EXPECT_EQ(anomalies.factor, 1.5);
    EXPECT_EQ(std::ranges::count_if(samples, [&](const Load& s) { return anomalies.has(s); }), 0);
    anomalies.choose_lengths(samples, seed);
    EXPECT_EQ(std::ranges::count_if(samples, [&](const Load& s) { return anomalies.has(s); }), 10);
    chosen.insert(anomalies.shortest);
  }
  EXPECT_GT(chosen.size(), 5U) << "the seed decides";
  EmulatedAnomalies all{.share = 1, .factor = 2};
  all.choose_lengths(samples, 1);
  EXPECT_TRUE(std::ranges::all_of(samples, [&](const Load& s) { return all.has(s); }));
}

TEST(EmulatedDisturbance, SaysWhatIsWrong) {
  for (const char* wrong : {"0.05", "0.05:", ":1.5", "0:1.5", "1.1:1.5", "-0.1:1.5", "nan:1.5",
                            "0.05:0", "0.05:101", "0.05:nan", "0.05:1.5x", "5%:1.5"}) {
    EXPECT_THAT(refusal({.anomalies = wrong}), HasSubstr("--anomalies is '" + std::string(wrong)));
  }
  for (const char* wrong : {"3", "x:1.2", "3:", "3:0", "3:101", "3:nan", "3:1.2@", "3:1.2@50-",
                            "3:1.2@50-50", "3:1.2@9-5", "3:1.2@50-60x", ":1.2"}) {
    EXPECT_THAT(refusal({.slow_rank = wrong}), HasSubstr("--slow-rank is '" + std::string(wrong)));
  }
  EXPECT_THAT(refusal({.slow_rank = "8:1.2"}), HasSubstr("--slow-rank is 8; the last rank is 7"));
  for (const char* wrong : {"encoder", "encoder:", "vision:2", "llm:2@5-5", ""}) {
    EXPECT_THAT(refusal({.changes = {wrong}}), HasSubstr("--change is '" + std::string(wrong)));
  }
  EXPECT_THAT(refusal({.changes = {"llm:2", "encoder:2", "llm:3@5"}}),
              HasSubstr("--change is given twice for llm"));
}

}  // namespace
}  // namespace isocost::cli
