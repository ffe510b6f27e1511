#include "loader/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"
#include "loader/plan/microbatch_count.h"
#include "loader/plan/microbatch_limits.h"

namespace isocost {
namespace {

// Mixed samples: captions, pictures, and now and then a video.
PlanInput make_input(std::size_t samples, std::uint64_t seed) {
  Random random(seed);
  PlanInput input;
  for (std::size_t i = 0; i < samples; ++i) {
    Load load;
    const std::uint64_t images = random.below(10) == 0 ? 16 : random.below(2);
    for (std::uint64_t k = 0; k < images; ++k) {
      load[CostModule::kVision].add_sequence(
          static_cast<std::int64_t>(4 * (50 + random.below(200))));
    }
    load.label_tokens = static_cast<std::int64_t>(20 + random.below(100));
    load[CostModule::kLlm].add_sequence(load[CostModule::kVision].units / 4 + load.label_tokens +
                                        1);
    load.tensor_bytes = load[CostModule::kVision].units * 588 + load[CostModule::kLlm].units * 24;
    input.loads.push_back(load);
    input.weights.push_back(1.0F);
    input.ids.push_back(1000 + i);
  }
  return input;
}

CostModel default_model() { return {CostProfile::stated_default(), {}}; }

PlanOptions make_options(std::int64_t ranks, std::int64_t microbatches,
                         std::int64_t global_batch_size) {
  PlanOptions options;
  options.ranks = ranks;
  options.microbatches = microbatches;
  options.global_batch_size = global_batch_size;
  return options;
}

double slowest_rank(const StepPlan& plan, std::int64_t ranks) {
  double slowest = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    double seconds = 0;
    for (std::uint32_t m = 0; m < plan.microbatches; ++m) {
      for (const double s : plan.bin(rank, m).predicted) seconds += s;
    }
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

// Each rank's microbatches of a plan keep every limit of the options.
void expect_within(const StepPlan& plan, const PlanOptions& options) {
  const auto limits = MicrobatchLimits::create(options, CostProfile::stated_default()).value();
  for (const PlannedMicrobatch& bin : plan.bins) {
    EXPECT_EQ(limits.why_too_large(bin.load).value_or(""), "");
  }
}

double weight_of(const StepPlan& plan) {
  double weight = 0;
  for (const PlannedMicrobatch& bin : plan.bins) {
    for (const PlannedSample& sample : bin.samples) weight += static_cast<double>(sample.weight);
  }
  return weight;
}

// Samples of so many LLM tokens each, and nothing else.
PlanInput text_input(const std::vector<std::int64_t>& tokens) {
  PlanInput input;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Load load;
    load[CostModule::kLlm].add_sequence(tokens[i]);
    load.tensor_bytes = 24 * tokens[i];
    input.loads.push_back(load);
    input.weights.push_back(1.0F);
    input.ids.push_back(i);
  }
  return input;
}

TEST(MicrobatchesFor, ShrinksWithTheTail) {
  const PlanOptions options = make_options(2, 4, 64);
  EXPECT_EQ(microbatches_for(64, options), 4U);
  EXPECT_EQ(microbatches_for(63, options), 4U);
  EXPECT_EQ(microbatches_for(32, options), 2U);
  EXPECT_EQ(microbatches_for(3, options), 1U);
  EXPECT_EQ(microbatches_for(1, options), 1U);
  EXPECT_EQ(microbatches_for(9, make_options(4, 4, 16)), 2U);  // 3 would leave a place empty
}

TEST(MicrobatchesOfEpoch, EndsWithTheLastStepsOwn) {
  const PlanOptions options = make_options(2, 4, 64);
  EXPECT_EQ(microbatches_of_epoch(0, 5, options), 0);
  EXPECT_EQ(microbatches_of_epoch(1, 3, options), 1);
  EXPECT_EQ(microbatches_of_epoch(2, 128, options), 8);
  EXPECT_EQ(microbatches_of_epoch(3, 160, options), 10);
  // Samples that no step takes, as with a limit of steps or with tail "drop".
  EXPECT_EQ(microbatches_of_epoch(2, 160, options), 8);
}

TEST(PlanStep, TokensBalancesTokensAndNotCost) {
  const PlanInput input = make_input(256, 5);
  const auto tokens_of = [](const StepPlan& plan, std::int64_t rank) {
    std::int64_t tokens = 0;
    for (std::uint32_t m = 0; m < plan.microbatches; ++m) {
      tokens += plan.bin(static_cast<std::size_t>(rank), m).load[CostModule::kLlm].units;
    }
    return tokens;
  };
  const auto most_over_least = [&](const StepPlan& plan) {
    std::int64_t least = tokens_of(plan, 0);
    std::int64_t most = least;
    for (std::int64_t rank = 1; rank < 4; ++rank) {
      least = std::min(least, tokens_of(plan, rank));
      most = std::max(most, tokens_of(plan, rank));
    }
    return static_cast<double>(most) / static_cast<double>(least);
  };
  PlanOptions options = make_options(4, 4, 256);
  options.balance = BalancePolicy::kTokens;
  const StepPlan tokens = plan_step(input, default_model(), options).value();
  options.balance = BalancePolicy::kInOrder;
  const StepPlan in_order = plan_step(input, default_model(), options).value();
  options.balance = BalancePolicy::kCost;
  const StepPlan cost = plan_step(input, default_model(), options).value();

  EXPECT_LT(most_over_least(tokens), 1.01);
  EXPECT_GT(most_over_least(in_order), 1.05);
  // The makespan is in predicted seconds under every policy.
  EXPECT_NEAR(tokens.makespan_s, slowest_rank(tokens, 4), 0.05 * tokens.makespan_s);
  EXPECT_LT(tokens.makespan_s, in_order.makespan_s);
  EXPECT_LT(cost.makespan_s, tokens.makespan_s);
  EXPECT_EQ(tokens.global_label_tokens, cost.global_label_tokens);
}

TEST(PlanStep, TokensIgnoresTheModelProfile) {
  const PlanInput input = make_input(64, 9);
  CostProfile expensive_vision = CostProfile::stated_default();
  expensive_vision.modules[0].coefficients.per_unit *= 10;
  const CostModel other(expensive_vision, {});
  PlanOptions options = make_options(2, 4, 64);
  const auto hash = [&](const CostModel& model) {
    return plan_step(input, model, options).value().hash;
  };
  EXPECT_NE(hash(other), hash(default_model()));
  options.balance = BalancePolicy::kTokens;
  EXPECT_EQ(hash(other), hash(default_model()));
}

TEST(PlanStep, PricesWhatTheTrainerPads) {
  CostModel::Options options;
  options.padded[static_cast<std::size_t>(CostModule::kLlm)] = true;
  const CostModel model(CostProfile::stated_default(), options);
  const PlanInput input = make_input(64, 3);
  const StepPlan plan = plan_step(input, model, make_options(2, 4, 64)).value();
  for (const PlannedMicrobatch& bin : plan.bins) {
    std::int64_t longest = 0;
    for (const PlannedSample& sample : bin.samples) {
      longest = std::max(longest, input.loads[sample.index][CostModule::kLlm].units);
    }
    const ModuleLoad& run = bin.run_load[CostModule::kLlm];
    EXPECT_EQ(run.units, static_cast<std::int64_t>(bin.samples.size()) * longest);
    EXPECT_EQ(run.units_squared, run.units * longest);
    if (bin.samples.size() == 1) continue;
    EXPECT_GT(run.units, bin.load[CostModule::kLlm].units);  // and that is what is delivered
    EXPECT_EQ(bin.run_load[CostModule::kVision], bin.load[CostModule::kVision]);
    EXPECT_EQ(bin.predicted, model.predict_microbatch(bin.run_load, bin.shape));
    EXPECT_GT(bin.predicted[2], default_model().predict_microbatch(bin.load)[2]);
  }
}

TEST(PlanStep, PlacesEverySampleOnce) {
  for (const BalancePolicy policy : {BalancePolicy::kInOrder, BalancePolicy::kCost}) {
    for (const std::size_t samples : {64U, 37U, 9U, 8U}) {
      PlanOptions options = make_options(4, 2, 64);
      options.balance = policy;
      const PlanInput input = make_input(samples, samples);
      const StepPlan plan = plan_step(input, default_model(), options).value();
      EXPECT_EQ(plan.bins.size(), 4 * plan.microbatches);
      std::multiset<std::uint32_t> seen;
      std::uint64_t labels = 0;
      for (const PlannedMicrobatch& bin : plan.bins) {
        EXPECT_FALSE(bin.samples.empty());
        Load load;
        for (const PlannedSample& sample : bin.samples) {
          seen.insert(sample.index);
          EXPECT_EQ(sample.weight, 1.0F);
          load += input.loads[sample.index];
        }
        EXPECT_EQ(bin.load, load);
        labels += static_cast<std::uint64_t>(load.label_tokens);
      }
      EXPECT_EQ(seen.size(), samples);
      EXPECT_EQ(std::set<std::uint32_t>(seen.begin(), seen.end()).size(), samples);
      EXPECT_EQ(plan.global_label_tokens, labels);
    }
  }
}

TEST(PlanStep, FillsPlacesWithoutSampleByRepeatsOfNoWeight) {
  const PlanInput input = make_input(3, 1);
  const StepPlan plan = plan_step(input, default_model(), make_options(8, 4, 64)).value();
  EXPECT_EQ(plan.microbatches, 1U);
  ASSERT_EQ(plan.bins.size(), 8U);
  float weight = 0;
  for (const PlannedMicrobatch& bin : plan.bins) {
    ASSERT_EQ(bin.samples.size(), 1U);
    weight += bin.samples.front().weight;
  }
  EXPECT_EQ(weight, 3.0F);
  std::uint64_t labels = 0;
  for (const Load& load : input.loads) labels += static_cast<std::uint64_t>(load.label_tokens);
  EXPECT_EQ(plan.global_label_tokens, labels);
}

TEST(PlanStep, OneInputOnePlan) {
  const PlanInput input = make_input(256, 7);
  const PlanOptions options = make_options(8, 4, 256);
  const StepPlan a = plan_step(input, default_model(), options).value();
  const StepPlan b = plan_step(input, default_model(), options).value();
  EXPECT_EQ(a.hash, b.hash);
  for (std::size_t i = 0; i < a.bins.size(); ++i) {
    ASSERT_EQ(a.bins[i].samples.size(), b.bins[i].samples.size());
    for (std::size_t k = 0; k < a.bins[i].samples.size(); ++k) {
      EXPECT_EQ(a.bins[i].samples[k].index, b.bins[i].samples[k].index);
    }
  }
}

TEST(PlanStep, CostIsFasterThanInOrder) {
  PlanOptions options = make_options(4, 4, 128);
  const PlanInput input = make_input(128, 3);
  const StepPlan balanced = plan_step(input, default_model(), options).value();
  options.balance = BalancePolicy::kInOrder;
  const StepPlan dealt = plan_step(input, default_model(), options).value();
  EXPECT_LT(slowest_rank(balanced, 4), 0.95 * slowest_rank(dealt, 4));
  EXPECT_LE(balanced.makespan_s, 1.01 * balanced.lower_bound_s);
  EXPECT_NE(balanced.hash, dealt.hash);
}

TEST(PlanStep, KeepsTheMemoryCapOrSaysThatItCannot) {
  PlanOptions options = make_options(2, 4, 64);
  const PlanInput input = make_input(64, 5);
  Load total;
  for (const Load& load : input.loads) total += load;
  options.microbatch_memory = total.tensor_bytes / 7;
  const StepPlan plan = plan_step(input, default_model(), options).value();
  for (const PlannedMicrobatch& bin : plan.bins) {
    EXPECT_LE(bin.load.tensor_bytes, options.microbatch_memory);
  }
  options.microbatch_memory = total.tensor_bytes / 9;  // less than all samples need
  EXPECT_EQ(plan_step(input, default_model(), options).error().code(),
            ErrorCode::kResourceExhausted);
}

TEST(PlanStep, KeepsEveryLimit) {
  const CostModel model = default_model();
  const PlanInput input = make_input(64, 5);
  Load total;
  for (const Load& load : input.loads) total += load;
  PlanOptions options = make_options(2, 4, 64);
  options.max_tokens = total[CostModule::kLlm].units / 7;
  options.max_vision_tokens = total[CostModule::kVision].units / 6;
  options.max_memory = std::int64_t{1} << 45;
  options.microbatch_memory = total.tensor_bytes / 7;
  const StepPlan plan = plan_step(input, model, options).value();
  EXPECT_EQ(plan.microbatches, 4U);
  expect_within(plan, options);
  // Only memory is limited, at the price of the model profile.
  PlanOptions by_memory = make_options(2, 4, 64);
  by_memory.max_memory = 1;
  const auto by_one = MicrobatchLimits::create(by_memory, model.profile()).value();
  std::vector<std::int64_t> bytes;
  for (const Load& load : input.loads) by_one.append_sizes(load, bytes);
  const std::int64_t all = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  EXPECT_GT(all, total.tensor_bytes);
  by_memory.max_memory = all / 7;
  expect_within(plan_step(input, model, by_memory).value(), by_memory);
  by_memory.microbatches = 2;
  by_memory.max_memory = all / 5;
  EXPECT_THAT(plan_step(input, model, by_memory).error().message(),
              testing::HasSubstr("(max_memory)"));
}

TEST(PlanStep, MemoryOfABuiltInProfileIsToBeMeasured) {
  PlanOptions options = make_options(1, 0, 2);
  options.max_memory = 1 << 20;
  options.max_tokens = 100;
  Load load;
  load[CostModule::kLlm].units = 90;
  CostProfile profile = CostProfile::stated_default();
  const auto reason = [&] {
    return MicrobatchLimits::create(options, profile).value().why_too_large(load).value_or("");
  };
  EXPECT_THAT(reason(), testing::AllOf(testing::HasSubstr("max_memory allows 1,048,576"),
                                       testing::HasSubstr("`isocost model profile DIR` measures"),
                                       testing::EndsWith("or raise it")));
  EXPECT_THAT(
      MicrobatchLimits::create(options, profile).value().too_full({load, load}, 1).message(),
      testing::HasSubstr("give `profile` what `isocost model profile DIR` measures, or raise "
                         "max_memory"));
  profile.source = "measured.json";
  EXPECT_THAT(reason(), testing::EndsWith("in a microbatch: raise it"));
  load[CostModule::kLlm].units = 101;  // The limit of tokens needs no profile.
  profile = CostProfile::stated_default();
  EXPECT_THAT(reason(), testing::EndsWith("max_tokens allows 100 in a microbatch: raise it"));
}

TEST(PlanStep, AFixedNumberThatDoesNotFitIsRefusedWithTheNumbers) {
  PlanOptions options = make_options(2, 2, 8);
  options.max_tokens = 1'500;
  const auto refused =
      plan_step(text_input(std::vector<std::int64_t>(8, 1'000)), default_model(), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(),
              testing::HasSubstr("8 samples does not fit: they have 8,000 LLM tokens, and 4 "
                                 "microbatches of at most 1,500 (max_tokens) hold 6,000, 2,000 "
                                 "too many"));
  // The sums fit, and the samples do not: two of 600 share a microbatch, and the ninth has no room.
  const auto apart = plan_step(text_input({600, 600, 600, 600, 600, 600, 600, 600, 600}),
                               default_model(), options);
  ASSERT_FALSE(apart);
  EXPECT_THAT(apart.error().message(), testing::HasSubstr("the largest sample has 600"));
}

TEST(PlanStep, ChoosesTheFewestMicrobatchesThatFit) {
  Random random(31);
  for (int round = 0; round < 40; ++round) {
    const std::int64_t ranks = 1 + static_cast<std::int64_t>(random.below(4));
    PlanOptions options = make_options(ranks, 0, 48);
    const PlanInput input = make_input(48, 100 + static_cast<std::uint64_t>(round));
    Load total;
    std::int64_t largest = 0;
    for (const Load& load : input.loads) {
      total += load;
      largest = std::max(largest, load[CostModule::kLlm].units);
    }
    options.max_tokens = std::max(
        largest, total[CostModule::kLlm].units / static_cast<std::int64_t>(2 + random.below(20)));
    const StepPlan plan = plan_step(input, default_model(), options).value();
    ASSERT_EQ(plan.bins.size(), static_cast<std::size_t>(ranks) * plan.microbatches);
    expect_within(plan, options);
    EXPECT_EQ(weight_of(plan), 48);
    const std::int64_t bins = ranks * plan.microbatches;
    EXPECT_GE(bins * options.max_tokens, total[CostModule::kLlm].units);
    EXPECT_EQ(plan_step(input, default_model(), options).value().hash, plan.hash);
    if (plan.microbatches == 1) continue;
    options.microbatches = plan.microbatches - 1;
    EXPECT_FALSE(plan_step(input, default_model(), options)) << "round " << round;
  }
}

TEST(PlanStep, SamplesThatShareNoMicrobatchHaveOneEach) {
  PlanOptions options = make_options(2, 0, 7);
  options.max_tokens = 1'000;
  const PlanInput input = text_input({900, 901, 902, 903, 904, 905, 906});
  const StepPlan plan = plan_step(input, default_model(), options).value();
  EXPECT_EQ(plan.microbatches, 4U);
  ASSERT_EQ(plan.bins.size(), 8U);
  expect_within(plan, options);
  for (const PlannedMicrobatch& bin : plan.bins) EXPECT_EQ(bin.samples.size(), 1U);
  EXPECT_EQ(weight_of(plan), 7);  // the eighth is a repeat
}

TEST(PlanStep, ASmallerLastBatchHasAsManyMicrobatchesAsItNeeds) {
  PlanOptions options = make_options(2, 4, 16);
  options.max_tokens = 1'000;
  // A third of a batch would be two microbatches per rank; these take three.
  const PlanInput input = text_input({900, 900, 900, 900, 900, 900});
  const StepPlan plan = plan_step(input, default_model(), options).value();
  EXPECT_EQ(plan.microbatches, 3U);
  expect_within(plan, options);
}

TEST(PlanStep, MemoryNeedsAProfileThatKnowsActivations) {
  CostProfile profile;
  profile.source = "seconds.json";
  PlanOptions options = make_options(1, 1, 2);
  options.max_memory = 1 << 30;
  const auto refused = plan_step(text_input({10, 10}), CostModel(profile, {}), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("max_memory: the model profile "
                                                            "(seconds.json)"));
}

TEST(PlanOptions, LimitsNeedBalanceByCost) {
  PlanOptions options = make_options(2, 0, 64);
  options.max_vision_tokens = 100;
  EXPECT_TRUE(options.validate());
  EXPECT_EQ(fixed_microbatches(options), 0);
  options.balance = BalancePolicy::kTokens;
  EXPECT_THAT(options.validate().error().message(),
              testing::HasSubstr("max_vision_tokens: only balance = cost"));
  options.max_vision_tokens = 0;
  EXPECT_TRUE(options.validate());
  EXPECT_EQ(fixed_microbatches(options), 4);
}

CostModel padding_model(std::int64_t multiple = 1) {
  CostModel::Options options;
  options.padded[static_cast<std::size_t>(CostModule::kLlm)] = true;
  options.padded_multiple = multiple;
  return {CostProfile::stated_default(), options};
}

// Seconds of the slowest rank of a division, as a trainer that pads runs it.
double padded_makespan(const StepPlan& plan, const PlanInput& input, std::int64_t ranks) {
  const CostModel model = padding_model();
  double slowest = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    double seconds = 0;
    for (std::uint32_t m = 0; m < plan.microbatches; ++m) {
      std::vector<Load> loads;
      for (const PlannedSample& sample : plan.bin(static_cast<std::size_t>(rank), m).samples) {
        loads.push_back(input.loads[sample.index]);
      }
      for (const Load& load : model.as_run(loads)) {
        for (const double s : model.predict_sample(load)) seconds += s;
      }
    }
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

// The share of padding among the LLM's tokens of a step, as run.
double padding_share(const StepPlan& plan, const PlanInput& input) {
  std::int64_t tokens = 0;
  std::int64_t run = 0;
  for (const PlannedMicrobatch& bin : plan.bins) {
    std::int64_t longest = 0;
    for (const PlannedSample& sample : bin.samples) {
      const std::int64_t length = input.loads[sample.index][CostModule::kLlm].units;
      tokens += length;
      longest = std::max(longest, length);
    }
    run += longest * std::ssize(bin.samples);
  }
  return 1 - static_cast<double>(tokens) / static_cast<double>(run);
}

// Lengths from 16 to 4,000, short ones most often.
PlanInput mixed_lengths(std::size_t samples, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < samples; ++i) {
    tokens.push_back(static_cast<std::int64_t>(16 * std::pow(250, random.uniform())));
  }
  return text_input(tokens);
}

TEST(PlanStep, APaddedStepGroupsLikeLengths) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PlanInput input = mixed_lengths(64, seed);
    const PlanOptions options = make_options(2, 4, 64);
    const StepPlan grouped = plan_step(input, padding_model(), options).value();
    const StepPlan packed = plan_step(input, default_model(), options).value();
    ASSERT_EQ(grouped.bins.size(), 8U);
    EXPECT_EQ(weight_of(grouped), 64);
    EXPECT_LT(padding_share(grouped, input), 0.7 * padding_share(packed, input)) << seed;
    const double makespan = padded_makespan(grouped, input, 2);
    EXPECT_LE(makespan, padded_makespan(packed, input, 2) * (1 + 1e-9)) << seed;
    EXPECT_NEAR(grouped.makespan_s, makespan, 1e-9 * makespan);
    EXPECT_LE(grouped.lower_bound_s, grouped.makespan_s);
    EXPECT_GE(grouped.lower_bound_s, packed.lower_bound_s * (1 - 1e-9));
  }
}

TEST(PlanStep, APaddedStepIsNeverWorseThanOneThatIgnoresPadding) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const PlanInput input = make_input(48, seed);  // pictures make lengths and costs differ
    const auto ranks = static_cast<std::int64_t>(1 + seed % 4);
    const PlanOptions options = make_options(ranks, 1 + static_cast<std::int64_t>(seed % 3), 48);
    const StepPlan grouped = plan_step(input, padding_model(), options).value();
    const StepPlan packed = plan_step(input, default_model(), options).value();
    EXPECT_EQ(weight_of(grouped), 48);
    EXPECT_LE(padded_makespan(grouped, input, ranks),
              padded_makespan(packed, input, ranks) * (1 + 1e-9))
        << seed;
  }
}

TEST(PlanStep, TheCutsOfAPaddedStepAreTheBestOfAllCuts) {
  // Three microbatches: every pair of cuts is tried.
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const PlanInput input = mixed_lengths(9, seed);
    PlanOptions options = make_options(3, 1, 9);
    std::vector<std::int64_t> lengths;
    for (const Load& load : input.loads) lengths.push_back(load[CostModule::kLlm].units);
    std::sort(lengths.rbegin(), lengths.rend());
    const CostModel model = padding_model();
    const auto run_s = [&](std::size_t begin, std::size_t end) {
      std::vector<Load> loads;
      for (std::size_t i = begin; i < end; ++i) loads.push_back(text_input({lengths[i]}).loads[0]);
      double seconds = 0;
      for (const Load& load : model.as_run(loads)) seconds += model.predict_sample(load)[2];
      return seconds;
    };
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t a = 1; a < 8; ++a) {
      for (std::size_t b = a + 1; b < 9; ++b) {
        best = std::min(best, std::max({run_s(0, a), run_s(a, b), run_s(b, 9)}));
      }
    }
    const StepPlan plan = plan_step(input, model, options).value();
    EXPECT_LE(plan.makespan_s, best * (1 + 1e-9)) << seed;
  }
}

TEST(PlanStep, LimitsOfAPaddedStepCountPaddedTokens) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PlanInput input = mixed_lengths(64, seed);
    PlanOptions options = make_options(2, 0, 64);
    options.max_tokens = 4'096;
    const StepPlan plan = plan_step(input, padding_model(), options).value();
    EXPECT_EQ(weight_of(plan), 64);
    for (const PlannedMicrobatch& bin : plan.bins) {
      EXPECT_LE(bin.run_load[CostModule::kLlm].units, 4'096) << seed;
    }
    options.microbatches = plan.microbatches - 1;
    const auto refused = plan_step(input, padding_model(), options);
    ASSERT_FALSE(refused) << seed;
    EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  }
}

// The fewest groups of samples of which each has room for its number times its longest: by trying
// all divisions.
std::size_t fewest_padded(const std::vector<std::int64_t>& lengths, std::int64_t cap) {
  std::size_t fewest = lengths.size();
  std::vector<std::vector<std::int64_t>> groups;
  const auto place = [&](auto& self, std::size_t i) -> void {
    if (groups.size() >= fewest) return;
    if (i == lengths.size()) {
      fewest = groups.size();
      return;
    }
    for (std::size_t g = 0; g <= groups.size(); ++g) {
      const bool opens = g == groups.size();
      if (opens) groups.emplace_back();
      groups[g].push_back(lengths[i]);
      const std::int64_t longest = *std::max_element(groups[g].begin(), groups[g].end());
      if (longest * std::ssize(groups[g]) <= cap) self(self, i + 1);
      groups[g].pop_back();
      if (opens) {
        groups.pop_back();
        return;
      }
    }
  };
  place(place, 0);
  return fewest;
}

std::int64_t rounded(std::int64_t length, std::int64_t multiple) {
  return (length + multiple - 1) / multiple * multiple;
}

TEST(PlanStep, APaddedStepHasTheFewestMicrobatchesThatThereCanBe) {
  Random random(17);
  for (int round = 0; round < 150; ++round) {
    const std::int64_t multiple = round % 3 == 0 ? 1 : 8;
    const PlanInput input =
        mixed_lengths(2 + random.below(6), 200 + static_cast<std::uint64_t>(round));
    std::vector<std::int64_t> lengths;
    for (const Load& load : input.loads) {
      lengths.push_back(rounded(load[CostModule::kLlm].units, multiple));
    }
    PlanOptions options = make_options(1, 0, std::ssize(lengths));
    options.padded_multiple = multiple;
    options.max_tokens = *std::max_element(lengths.begin(), lengths.end()) +
                         static_cast<std::int64_t>(random.below(6'000));
    const StepPlan plan = plan_step(input, padding_model(multiple), options).value();
    EXPECT_EQ(plan.microbatches, fewest_padded(lengths, options.max_tokens)) << "round " << round;
  }
}

// Whatever the limits, padding counts, with what brings it to a multiple, and no smaller number of
// microbatches that the planner skipped would have done.
TEST(PlanStep, APaddedStepKeepsEveryLimitInTheFewestMicrobatches) {
  Random random(23);
  for (int round = 0; round < 40; ++round) {
    const std::int64_t multiple = round % 2 == 0 ? 64 : 1;
    const CostModel model = padding_model(multiple);
    const PlanInput input = make_input(40, 300 + static_cast<std::uint64_t>(round));
    PlanOptions options = make_options(1 + static_cast<std::int64_t>(random.below(3)), 0, 40);
    options.padded_multiple = multiple;
    Load total;
    Load largest;
    std::int64_t largest_bytes = 0;
    PlanOptions memory_alone = options;
    memory_alone.max_memory = 1;
    const auto memory = MicrobatchLimits::create(memory_alone, model.profile()).value();
    for (const Load& load : input.loads) {
      total += load;
      for (std::size_t m = 0; m < kModules; ++m) {
        largest.modules[m].units = std::max(largest.modules[m].units, load.modules[m].units);
      }
      std::vector<std::int64_t> bytes;
      memory.append_sizes(load, bytes);
      largest_bytes = std::max(largest_bytes, bytes[0]);
    }
    const auto parts = static_cast<std::int64_t>(3 + random.below(15));
    if (round % 4 != 3) {
      options.max_tokens = std::max(rounded(largest[CostModule::kLlm].units, multiple),
                                    total[CostModule::kLlm].units / parts);
    }
    if (round % 4 > 0) {
      options.max_vision_tokens =
          std::max(largest[CostModule::kVision].units, total[CostModule::kVision].units / parts);
    }
    if (round % 4 > 1) options.max_memory = largest_bytes * 2;
    const StepPlan plan = plan_step(input, model, options).value();
    EXPECT_EQ(weight_of(plan), 40);
    const auto limits = MicrobatchLimits::create(options, model.profile()).value();
    for (const PlannedMicrobatch& bin : plan.bins) {
      std::int64_t longest = 0;
      for (const PlannedSample& sample : bin.samples) {
        longest = std::max(longest, input.loads[sample.index][CostModule::kLlm].units);
      }
      const std::int64_t run = std::ssize(bin.samples) * rounded(longest, multiple);
      EXPECT_EQ(bin.run_load[CostModule::kLlm].units, run);
      EXPECT_LE(run, options.max_tokens > 0 ? options.max_tokens : run);
      EXPECT_EQ(limits.why_too_large(bin.run_load).value_or(""), "");
    }
    for (options.microbatches = 1; options.microbatches < plan.microbatches;
         ++options.microbatches) {
      EXPECT_FALSE(plan_step(input, model, options)) << "round " << round;
    }
  }
}

TEST(PlanStep, ASampleBeyondALimitGoesAloneAndIsTold) {
  PlanOptions options = make_options(2, 0, 8);
  options.max_tokens = 1'500;
  const PlanInput input = text_input({10, 2'000, 10, 10, 700, 800, 10, 10});
  for (const CostModel& model : {default_model(), padding_model()}) {
    const StepPlan plan = plan_step(input, model, options).value();
    ASSERT_EQ(plan.over_limit.size(), 1U);
    EXPECT_EQ(plan.over_limit[0].index, 1U);
    EXPECT_THAT(plan.over_limit[0].reason,
                testing::HasSubstr("has 2,000 LLM tokens, and max_tokens allows 1,500"));
    std::size_t placed = 0;
    for (const PlannedMicrobatch& bin : plan.bins) {
      placed += bin.samples.size();
      const bool holds_it = std::any_of(bin.samples.begin(), bin.samples.end(),
                                        [](const PlannedSample& s) { return s.index == 1; });
      EXPECT_TRUE(holds_it ? bin.samples.size() == 1
                           : bin.run_load[CostModule::kLlm].units <= 1'500);
    }
    EXPECT_GE(placed, input.loads.size());
  }
}

TEST(PlanStep, ASampleIsTooLargeIfItsPaddingIs) {
  PlanOptions options = make_options(1, 0, 2);
  options.max_tokens = 1'000;
  const PlanInput input = text_input({970, 10});
  EXPECT_TRUE(plan_step(input, padding_model(), options).value().over_limit.empty());
  options.padded_multiple = 64;
  const StepPlan plan = plan_step(input, padding_model(64), options).value();
  ASSERT_EQ(plan.over_limit.size(), 1U);
  EXPECT_EQ(plan.over_limit[0].index, 0U);
  EXPECT_THAT(plan.over_limit[0].reason,
              testing::HasSubstr("has 1,024 LLM tokens, and max_tokens"));
}

TEST(PlanStep, RefusesAStepWithoutSamples) {
  EXPECT_EQ(plan_step({}, default_model(), make_options(1, 1, 1)).error().code(),
            ErrorCode::kInvalidArgument);
}

// A dummy picture of one token.
DummyChoice dummy_image() {
  DummyChoice dummy;
  dummy.load[CostModule::kVision].add_sequence(4);
  dummy.load[CostModule::kLlm].add_sequence(1);
  dummy.load.tensor_bytes = 4 * 588 + 24;
  return dummy;
}

// Samples of 100 tokens, of which those at `with` have a picture.
PlanInput pictures_at(const std::set<std::size_t>& with, std::size_t samples) {
  PlanInput input = text_input(std::vector<std::int64_t>(samples, 100));
  for (std::size_t i = 0; i < samples; ++i) {
    const bool has = with.contains(i);
    if (has) input.loads[i][CostModule::kVision].add_sequence(64);
    input.media.push_back(has ? bit_of(Modality::kImage) : ModalitySet{0});
  }
  input.dummies = {dummy_image()};
  return input;
}

PlanOptions in_order(std::int64_t ranks, std::int64_t microbatches) {
  PlanOptions options = make_options(ranks, microbatches, ranks * microbatches);
  options.balance = BalancePolicy::kInOrder;
  return options;
}

std::vector<std::size_t> dummies_of(const StepPlan& plan) {
  std::vector<std::size_t> counts;
  for (const PlannedMicrobatch& bin : plan.bins) counts.push_back(bin.dummies.size());
  return counts;
}

TEST(DummyMedia, StandInWhereTheSameMicrobatchOfAnotherRankHasMedia) {
  // In order, sample i is microbatch i / 3 of rank i % 3.
  const StepPlan plan = plan_step(pictures_at({1, 2}, 9), default_model(), in_order(3, 3)).value();
  // With the last microbatch gradients are summed, so that it has the media of the whole step.
  EXPECT_EQ(dummies_of(plan), (std::vector<std::size_t>{1, 0, 1, 0, 0, 1, 0, 0, 1}));
  ASSERT_EQ(plan.dummies.size(), 1U);
  const PlannedMicrobatch& lacking = plan.bin(0, 0);
  EXPECT_EQ(lacking.load[CostModule::kVision].units, 4);
  EXPECT_EQ(lacking.load[CostModule::kLlm].units, 101);
  EXPECT_EQ(lacking.load[CostModule::kLlm].sequences, 2);
  EXPECT_GT(lacking.predicted[static_cast<std::size_t>(CostModule::kVision)], 0);
  EXPECT_EQ(plan.samples_counted(0, 0), 1U);
  EXPECT_EQ(plan.global_label_tokens, 0U);
}

TEST(DummyMedia, StandInForPicturesAndVideosApart) {
  // In order, sample i is microbatch i / 2 of rank i % 2: a picture beside a video, then two texts.
  PlanInput input = pictures_at({0, 1}, 4);
  input.media[1] = bit_of(Modality::kVideo);
  input.dummies.push_back(dummy_image());
  input.dummies[1].modality = Modality::kVideo;
  const StepPlan plan = plan_step(input, default_model(), in_order(2, 2)).value();
  const auto modalities = [&](std::size_t rank, std::uint32_t microbatch) {
    std::vector<Modality> found;
    for (const std::uint32_t dummy : plan.bin(rank, microbatch).dummies) {
      found.push_back(plan.dummies[dummy].modality);
    }
    return found;
  };
  EXPECT_EQ(modalities(0, 0), std::vector{Modality::kVideo});
  EXPECT_EQ(modalities(1, 0), std::vector{Modality::kImage});
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(modalities(rank, 1), (std::vector{Modality::kImage, Modality::kVideo}));
  }
}

TEST(DummyMedia, ArePlacedInEveryMicrobatchIfAlwaysWanted) {
  PlanOptions options = in_order(3, 2);
  options.dummy_media = DummyMediaPolicy::kAlways;
  EXPECT_EQ(dummies_of(plan_step(pictures_at({1}, 6), default_model(), options).value()),
            (std::vector<std::size_t>{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(dummies_of(plan_step(pictures_at({}, 6), default_model(), options).value()),
            (std::vector<std::size_t>(6, 1)));
  EXPECT_EQ(dummies_of(plan_step(pictures_at({}, 2), default_model(), in_order(1, 2)).value()),
            (std::vector<std::size_t>(2, 0)));
}

TEST(DummyMedia, LeaveOtherPlansAsTheyAre) {
  for (const std::set<std::size_t>& with :
       {std::set<std::size_t>{}, std::set<std::size_t>{0, 1, 2, 3, 4, 5}}) {
    PlanInput input = pictures_at(with, 6);
    const StepPlan plan = plan_step(input, default_model(), in_order(3, 2)).value();
    input.dummies.clear();
    EXPECT_EQ(plan.hash, plan_step(input, default_model(), in_order(3, 2)).value().hash);
    EXPECT_TRUE(plan.dummies.empty());
  }
  PlanOptions off = in_order(3, 2);
  off.dummy_media = DummyMediaPolicy::kOff;
  const PlanInput lacking = pictures_at({0}, 6);
  EXPECT_EQ(dummies_of(plan_step(lacking, default_model(), off).value()),
            (std::vector<std::size_t>(6, 0)));
  EXPECT_NE(plan_step(lacking, default_model(), off).value().hash,
            plan_step(lacking, default_model(), in_order(3, 2)).value().hash);
}

TEST(DummyMedia, HaveRoomWithinTheLimits) {
  PlanOptions options = make_options(2, 0, 8);
  options.max_tokens = 200;
  const StepPlan plan = plan_step(pictures_at({0}, 8), default_model(), options).value();
  EXPECT_GT(plan.microbatches, 2U) << "two samples of 100 tokens leave no room";
  EXPECT_NE(dummies_of(plan), std::vector<std::size_t>(plan.bins.size(), 0));
  expect_within(plan, options);
}

TEST(DummyMedia, ASampleThatFillsItsMicrobatchKeepsIt) {
  PlanOptions options = make_options(2, 0, 2);
  options.max_tokens = 100;
  const StepPlan plan = plan_step(pictures_at({0}, 2), default_model(), options).value();
  EXPECT_EQ(plan.microbatches, 1U);
  EXPECT_TRUE(plan.over_limit.empty());
  std::int64_t most = 0;
  for (const PlannedMicrobatch& bin : plan.bins) {
    most = std::max(most, bin.load[CostModule::kLlm].units);
  }
  EXPECT_EQ(most, 101) << "beyond the limit by its dummy";
}

// Rows of one length: a dummy makes all of them longer.
TEST(DummyMedia, PaddedRowsKeepTheLimitsWithThem) {
  CostModel::Options padding;
  padding.padded[static_cast<std::size_t>(CostModule::kLlm)] = true;
  const CostModel model(CostProfile::stated_default(), padding);
  PlanInput input = pictures_at({0}, 16);
  input.dummies.front().load[CostModule::kLlm] = {};
  input.dummies.front().load[CostModule::kLlm].add_sequence(50);
  PlanOptions options = make_options(2, 0, 16);
  options.max_tokens = 600;
  const StepPlan plan = plan_step(input, model, options).value();
  for (const PlannedMicrobatch& bin : plan.bins) {
    EXPECT_LE(bin.run_load[CostModule::kLlm].units, 600) << bin.samples.size() << " samples";
  }
  EXPECT_NE(dummies_of(plan), std::vector<std::size_t>(plan.bins.size(), 0));
}

// The number of microbatches that is asked for holds the samples only without room for dummies.
TEST(DummyMedia, DoNotEndAStepThatFitsWithoutThem) {
  PlanOptions options = make_options(2, 2, 8);
  options.max_tokens = 200;
  const StepPlan plan = plan_step(pictures_at({0}, 8), default_model(), options).value();
  EXPECT_EQ(plan.microbatches, 2U);
  EXPECT_NE(dummies_of(plan), std::vector<std::size_t>(4, 0));
}

TEST(DummyMedia, GoToTheEndOfTheShortestPaddedRow) {
  CostModel::Options padding;
  padding.padded[static_cast<std::size_t>(CostModule::kLlm)] = true;
  const CostModel model(CostProfile::stated_default(), padding);
  PlanInput input = pictures_at({1, 3, 5, 7}, 8);
  for (const std::size_t long_one : {std::size_t{2}, std::size_t{4}, std::size_t{6}}) {
    input.loads[long_one][CostModule::kLlm] = {};
    input.loads[long_one][CostModule::kLlm].add_sequence(150);
  }
  PlanOptions options = make_options(2, 1, 8);
  options.balance = BalancePolicy::kInOrder;
  const StepPlan plan = plan_step(input, model, options).value();
  ASSERT_EQ(dummies_of(plan), (std::vector<std::size_t>{1, 0}));
  const PlannedMicrobatch& text = plan.bin(0, 0);
  EXPECT_EQ(text.samples.back().index, 0U);
  EXPECT_EQ(text.run_load[CostModule::kLlm].units, 4 * 150) << "no row and no column more";
}

}  // namespace
}  // namespace isocost
