// The guarantees of correction, on an emulated trainer with hidden costs. Every scenario runs with
// several seeds; the loader plans two steps ahead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/emulated_trainer.h"

namespace isocost {
namespace {

constexpr std::uint64_t kSeeds[] = {1, 2, 3, 4, 5, 6, 7, 8};

// A machine on which all terms are significant. As a profile it is exact.
CostProfile measured_profile() {
  CostProfile profile;
  profile.modules[0].coefficients = {4e-3, 1e-4, 2e-6, 4e-10};
  profile.modules[1].coefficients = {3e-3, 1e-4, 6e-6, 1e-9};
  profile.modules[2].coefficients = {5e-3, 0, 1.5e-5, 2e-9};
  profile.source = "measured";
  return profile;
}

// Mean relative error of one module's sample costs by bucket; -1 for buckets without samples.
std::vector<double> errors_by_bucket(const CostModel& model, const EmulatedTrainer& trainer,
                                     CostModule module, std::int64_t step) {
  std::vector<double> sums(kShapeBuckets, 0);
  std::vector<double> counts(kShapeBuckets, 0);
  const auto m = static_cast<std::size_t>(module);
  for (const Load& sample : trainer.draw(400, 77)) {
    if (sample[module].units == 0) continue;
    const std::vector<Load> twice(2, sample);
    const double exact = trainer.hidden().seconds(module, twice, step) -
                         trainer.hidden().seconds(module, std::span(twice).first(1), step);
    const std::size_t bucket = shape_bucket(sample[module]);
    sums[bucket] += std::abs(model.predict_sample(sample)[m] / exact - 1);
    counts[bucket] += 1;
  }
  for (std::size_t b = 0; b < kShapeBuckets; ++b)
    sums[b] = counts[b] > 0 ? sums[b] / counts[b] : -1;
  return sums;
}

struct ExpensiveBucket {
  CostModule module;
  std::size_t bucket;
};

// The buckets that make up at least 8 % of their module's seconds.
std::vector<ExpensiveBucket> buckets_that_matter(const CostProfile& profile) {
  const EmulatedTrainer trainer(cost_of(profile), {});
  const MicrobatchShape all = CostModel(profile, {}).shape_of(trainer.draw(20'000, 5));
  ModuleSeconds total{};
  for (const BucketSeconds& part : all) {
    total.at(static_cast<std::size_t>(part.module)) += part.seconds;
  }
  std::vector<ExpensiveBucket> buckets;
  for (const BucketSeconds& part : all) {
    if (part.seconds > 0.08 * total.at(static_cast<std::size_t>(part.module))) {
      buckets.push_back({part.module, part.bucket});
    }
  }
  return buckets;
}

// One bucket of one module more expensive than the profile says.
HiddenCost with_expensive_bucket(const CostProfile& profile, const ExpensiveBucket& expensive) {
  HiddenCost hidden = cost_of(profile);
  hidden.seconds = [plain = hidden.seconds, profile, expensive](
                       CostModule module, std::span<const Load> samples, std::int64_t step) {
    double seconds = plain(module, samples, step);
    if (module != expensive.module) return seconds;
    const ModuleCoefficients& c = profile.modules[static_cast<std::size_t>(module)].coefficients;
    for (const Load& sample : samples) {
      if (sample[module].units == 0 || shape_bucket(sample[module]) != expensive.bucket) continue;
      seconds += 0.6 * (predict(c, sample[module]).count() - c.per_microbatch);
    }
    return seconds;
  };
  return hidden;
}

TEST(Scenario, AShapeBucketIsMoreExpensiveThanProfiled) {
  const CostProfile profile = measured_profile();
  for (const ExpensiveBucket& expensive : buckets_that_matter(profile)) {
    for (const std::uint64_t seed : kSeeds) {
      SCOPED_TRACE(std::string(module_name(expensive.module)) + " bucket " +
                   std::to_string(expensive.bucket) + " seed " + std::to_string(seed));
      EmulatedTrainer trainer(with_expensive_bucket(profile, expensive), {.seed = seed});
      CostModel model(profile, {});
      for (int step = 0; step < 60; ++step) {
        trainer.run_step(model);
        for (std::size_t m = 0; m < kModules; ++m) {
          const auto module = static_cast<CostModule>(m);
          const auto errors = errors_by_bucket(model, trainer, module, step);
          for (std::size_t b = 0; b < kShapeBuckets; ++b) {
            if (module == expensive.module && b == expensive.bucket) {
              ASSERT_GE(errors[b], 0) << "the scenario has no such samples";
              EXPECT_TRUE(step < 20 || errors[b] <= 0.05) << errors[b] << " step " << step;
            } else {
              EXPECT_LE(errors[b], 0.02) << module_name(module) << " " << b << " step " << step;
            }
          }
        }
      }
    }
  }
}

TEST(Scenario, ARankIsSlowerForAWhile) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    HiddenCost hidden = cost_of(profile);
    hidden.slowdown = [](std::int32_t rank, std::int64_t step) {
      return rank == 3 && step >= 50 && step < 150 ? 1.2 : 1.0;
    };
    EmulatedTrainer trainer(hidden, {.seed = seed});
    CostModel model(profile, {});
    for (int step = 0; step < 200; ++step) {
      const EmulatedStep run = trainer.run_step(model);
      double others = 0;
      for (std::size_t rank = 0; rank < 8; ++rank) {
        if (rank != 3) others += run.rank_profile_s[rank] / 7;
      }
      const bool settled = (step >= 60 && step < 150) || step >= 170 || step < 50;
      if (settled) {
        EXPECT_LE(run.seconds / run.oracle_seconds, 1.03) << "step " << step;
      }
      if (step >= 60 && step < 150) {
        EXPECT_LT(run.rank_profile_s[3], 0.9 * others);
      }
    }
  }
}

// Half of the ranks have half of the measurements: this is neither a change of the other ranks nor
// model drift.
TEST(Scenario, HalfOfTheRanksAreSlower) {
  struct Case {
    std::int32_t ranks;
    std::int64_t from;
    double factor;
    CostProfile profile;
  };
  const CostProfile truth = measured_profile();
  const CostProfile unknown = CostProfile::stated_default();
  for (const Case& at :
       {Case{2, 30, 1.5, truth}, Case{2, 0, 3, truth}, Case{2, 0, 3, unknown},
        Case{2, 0, 1.2, unknown}, Case{4, 30, 1.5, truth}, Case{4, 0, 1.5, unknown}}) {
    for (const std::uint64_t seed : kSeeds) {
      SCOPED_TRACE(testing::Message() << at.ranks << " ranks, " << at.factor << " from step "
                                      << at.from << ", seed " << seed);
      HiddenCost hidden = cost_of(truth);
      hidden.slowdown = [&at](std::int32_t rank, std::int64_t step) {
        return 2 * rank < at.ranks && step >= at.from ? at.factor : 1.0;
      };
      EmulatedTrainer trainer(hidden, {.ranks = at.ranks, .global_batch_size = 64, .seed = seed});
      CostModel model(at.profile, {});
      double over = 0;
      for (std::int64_t step = 0; step < at.from + 30; ++step) {
        const EmulatedStep run = trainer.run_step(model);
        if (step >= at.from + 10) over += run.seconds / run.oracle_seconds - 1;
      }
      EXPECT_EQ(model.correction().drifts, 0U);
      EXPECT_LE(over / 20, 0.03);
      EXPECT_NEAR(model.rank_slowdowns().front() / model.rank_slowdowns().back() / at.factor, 1,
                  0.05);
    }
  }
}

TEST(Scenario, TheEncoderIsUnfrozen) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    HiddenCost hidden = cost_of(profile);
    hidden.seconds = [plain = hidden.seconds](CostModule module, std::span<const Load> samples,
                                              std::int64_t step) {
      return plain(module, samples, step) * (module == CostModule::kVision && step >= 100 ? 3 : 1);
    };
    EmulatedTrainer trainer(hidden, {.seed = seed});
    CostModel model(profile, {});
    for (int step = 0; step < 160; ++step) {
      trainer.run_step(model);
      if (step < 100) {
        EXPECT_EQ(model.correction().drifts, 0U) << step;
      }
      if (step == 110) {
        EXPECT_GE(model.correction().drifts, 1U);
        EXPECT_TRUE(model.correction().reprofile_suggested);
      }
      if (step < 130) continue;
      for (std::size_t m = 0; m < kModules; ++m) {
        for (const double error :
             errors_by_bucket(model, trainer, static_cast<CostModule>(m), step)) {
          EXPECT_LE(error, 0.05) << m << " step " << step;
        }
      }
    }
    EXPECT_LE(model.correction().drifts, 2U);
  }
}

// Two microbatches per step: enough to learn the scale by step 130, but not the buckets.
TEST(Scenario, AModuleOfASmallJobChanges) {
  const CostProfile profile = measured_profile();
  for (const double change : {1.2, 1.5}) {
    for (const std::uint64_t seed : kSeeds) {
      SCOPED_TRACE(testing::Message() << change << ", seed " << seed);
      HiddenCost hidden = cost_of(profile);
      hidden.seconds = [plain = hidden.seconds, change](
                           CostModule module, std::span<const Load> samples, std::int64_t step) {
        return plain(module, samples, step) *
               (module == CostModule::kVision && step >= 100 ? change : 1);
      };
      EmulatedTrainer trainer(hidden, {.ranks = 2, .microbatches = 1, .seed = seed});
      CostModel model(profile, {});
      for (int step = 0; step < 160; ++step) {
        trainer.run_step(model);
        if (step < 130) continue;
        for (const double error : errors_by_bucket(model, trainer, CostModule::kVision, step)) {
          EXPECT_LE(error, 0.05) << "step " << step;
        }
      }
      EXPECT_GE(model.correction().drifts, 1U);
    }
  }
}

// Observes the step's measurements, of which 2 % take ten times as long.
void observe_with_outliers(CostModel& model, const EmulatedStep& step, Random& random) {
  for (Measurement measurement : step.measurements) {
    if (random.uniform() < 0.02) {
      for (double& seconds : measurement.seconds) {
        if (seconds != kNotMeasured) seconds *= 10;
      }
    }
    ASSERT_TRUE(model.observe(measurement));
  }
  model.update();
}

double largest_move(const CorrectionStatus& from, const CorrectionStatus& to) {
  double largest = 0;
  for (std::size_t m = 0; m < kModules; ++m) {
    largest = std::max(largest, std::abs(to.modules[m].fixed / from.modules[m].fixed - 1));
    for (std::size_t b = 0; b < kShapeBuckets; ++b) {
      const double move = to.modules[m].buckets[b] / from.modules[m].buckets[b] - 1;
      largest = std::max(largest, std::abs(move));
    }
  }
  for (std::size_t rank = 0; rank < to.rank_slowdowns.size(); ++rank) {
    const double before = rank < from.rank_slowdowns.size() ? from.rank_slowdowns[rank] : 1;
    largest = std::max(largest, std::abs(to.rank_slowdowns[rank] / before - 1));
  }
  return largest;
}

TEST(Scenario, OutliersDoNotChangeFactors) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    HiddenCost hidden = with_expensive_bucket(profile, {CostModule::kVision, 15});
    hidden.slowdown = [](std::int32_t rank, std::int64_t) { return rank == 5 ? 1.2 : 1.0; };
    EmulatedTrainer trainer(hidden, {.seed = seed});
    CostModel calm(profile, {});
    CostModel disturbed(profile, {});
    Random random(seed + 50);
    for (int step = 0; step < 160; ++step) {
      const EmulatedStep measured = trainer.run_step(calm);
      if (step < 30) {
        for (const Measurement& measurement : measured.measurements) {
          ASSERT_TRUE(disturbed.observe(measurement));
        }
        disturbed.update();
      } else {
        observe_with_outliers(disturbed, measured, random);
      }
      EXPECT_LE(largest_move(calm.correction(), disturbed.correction()), 0.01) << step;
      EXPECT_EQ(disturbed.correction().drifts, 0U);
    }
    EXPECT_NEAR(disturbed.correction().modules[0].buckets[15], 1.6, 0.05);
  }
}

TEST(Scenario, OutliersDoNotSpoilAnExactProfile) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    EmulatedTrainer trainer(cost_of(profile), {.outliers = 0.02, .seed = seed});
    CostModel model(profile, {});
    const CorrectionStatus before = CostModel(profile, {}).correction();
    for (int step = 0; step < 100; ++step) {
      trainer.run_step(model);
      EXPECT_LE(largest_move(before, model.correction()), 0.01) << step;
    }
    EXPECT_EQ(model.correction().drifts, 0U);
  }
}

TEST(Scenario, AnExactProfileNeedsNoCorrection) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    EmulatedTrainer trainer(cost_of(profile), {.seed = seed});
    CostModel::Options options;
    // A clock by which every timed call takes 20 us. The real time is measured by the benchmark.
    options.correction.clock = [now = std::int64_t{0}]() mutable { return now += 20'000; };
    CostModel model(profile, options);
    for (int step = 0; step < 100; ++step) {
      trainer.run_step(model);
      const CorrectionStatus status = model.correction();
      EXPECT_LE(status.overhead, 0.005);
      if (step >= 50) {
        EXPECT_FALSE(status.on) << "step " << step << " gain " << status.gain;
      }
    }
    EXPECT_GT(model.correction().overhead, 0);
  }
}

TEST(Scenario, WithoutAProfileTheDefaultIsCorrected) {
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    EmulatedTrainer trainer(cost_of(measured_profile()), {.seed = seed});
    CostModel model(CostProfile::stated_default(), {});
    for (int step = 0; step < 100; ++step) {
      const EmulatedStep run = trainer.run_step(model);
      if (step < 40) continue;
      EXPECT_LE(run.seconds / run.oracle_seconds, 1.05) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace isocost
