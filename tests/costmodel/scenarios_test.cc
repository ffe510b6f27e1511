// What correction promises, on an emulated trainer whose costs the model cannot see. Every scenario
// runs with several seeds; the loader plans two steps ahead throughout.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/emulated_trainer.h"

namespace isocost {
namespace {

constexpr std::uint64_t kSeeds[] = {1, 2, 3, 4, 5, 6, 7, 8};

// A machine whose every term matters; as a profile it is exact.
CostProfile measured_profile() {
  CostProfile profile;
  profile.modules[0].coefficients = {4e-3, 1e-4, 2e-6, 4e-10};
  profile.modules[1].coefficients = {3e-3, 1e-4, 6e-6, 1e-9};
  profile.modules[2].coefficients = {5e-3, 0, 1.5e-5, 2e-9};
  profile.source = "measured";
  return profile;
}

// Mean relative error of one module's sample prices, bucket by bucket; -1 where there are none.
std::vector<double> errors_by_bucket(const CostModel& model, const EmulatedTrainer& trainer,
                                     Module module, std::int64_t step) {
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
  for (std::size_t b = 0; b < kShapeBuckets; ++b) sums[b] = counts[b] > 0 ? sums[b] / counts[b] : -1;
  return sums;
}

// One bucket of one module dearer than the profile says.
HiddenCost with_dear_bucket(const CostProfile& profile, Module dear, std::size_t bucket) {
  HiddenCost hidden = cost_of(profile);
  hidden.seconds = [plain = hidden.seconds, profile, dear, bucket](
                       Module module, std::span<const Load> samples, std::int64_t step) {
    double seconds = plain(module, samples, step);
    if (module != dear) return seconds;
    const ModuleCoefficients& c = profile.modules[static_cast<std::size_t>(module)].coefficients;
    for (const Load& sample : samples) {
      if (sample[module].units == 0 || shape_bucket(sample[module]) != bucket) continue;
      seconds += 0.6 * (predict(c, sample[module]).count() - c.per_microbatch);
    }
    return seconds;
  };
  return hidden;
}

TEST(Scenario, ABucketOfShapesIsDearerThanProfiled) {
  const CostProfile profile = measured_profile();
  const struct {
    Module module;
    std::size_t bucket;
  } cases[] = {{Module::kVision, 7}, {Module::kVision, 11}, {Module::kVision, 15},
               {Module::kAudio, 12}, {Module::kLlm, 9},     {Module::kLlm, 13}};
  for (const auto& dear : cases) {
    for (const std::uint64_t seed : kSeeds) {
      SCOPED_TRACE(std::string(module_name(dear.module)) + " bucket " +
                   std::to_string(dear.bucket) + " seed " + std::to_string(seed));
      EmulatedTrainer trainer(with_dear_bucket(profile, dear.module, dear.bucket), {.seed = seed});
      CostModel model(profile, {});
      for (int step = 0; step < 60; ++step) {
        trainer.run_step(model);
        for (std::size_t m = 0; m < kModules; ++m) {
          const auto module = static_cast<Module>(m);
          const auto errors = errors_by_bucket(model, trainer, module, step);
          for (std::size_t b = 0; b < kShapeBuckets; ++b) {
            if (module == dear.module && b == dear.bucket) {
              ASSERT_GE(errors[b], 0) << "the scenario has no such samples";
              if (step >= 20) EXPECT_LE(errors[b], 0.05) << "step " << step;
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
    hidden.speed = [](std::int32_t rank, std::int64_t step) {
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

TEST(Scenario, TheEncoderIsUnfrozen) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    HiddenCost hidden = cost_of(profile);
    hidden.seconds = [plain = hidden.seconds](Module module, std::span<const Load> samples,
                                              std::int64_t step) {
      return plain(module, samples, step) * (module == Module::kVision && step >= 100 ? 3 : 1);
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
             errors_by_bucket(model, trainer, static_cast<Module>(m), step)) {
          EXPECT_LE(error, 0.05) << m << " step " << step;
        }
      }
    }
    EXPECT_LE(model.correction().drifts, 2U);
  }
}

TEST(Scenario, OutliersMoveNoFactor) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    EmulatedTrainer trainer(with_dear_bucket(profile, Module::kVision, 11),
                            {.outliers = 0.02, .seed = seed});
    EmulatedTrainer calm(with_dear_bucket(profile, Module::kVision, 11), {.seed = seed});
    CostModel disturbed(profile, {});
    CostModel clean(profile, {});
    for (int step = 0; step < 120; ++step) {
      trainer.run_step(disturbed);
      calm.run_step(clean);
      if (step < 30) continue;
      const CorrectionStatus a = disturbed.correction();
      const CorrectionStatus b = clean.correction();
      EXPECT_EQ(a.drifts, 0U);
      for (std::size_t m = 0; m < kModules; ++m) {
        EXPECT_NEAR(a.modules[m].fixed, b.modules[m].fixed, 0.01) << m << " step " << step;
        for (std::size_t k = 0; k < kShapeBuckets; ++k) {
          EXPECT_NEAR(a.modules[m].buckets[k] / b.modules[m].buckets[k], 1, 0.01)
              << m << " " << k << " step " << step;
        }
      }
      for (const double speed : a.rank_speeds) EXPECT_NEAR(speed, 1, 0.01) << "step " << step;
    }
  }
}

TEST(Scenario, AnExactProfileNeedsNoCorrection) {
  const CostProfile profile = measured_profile();
  for (const std::uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    EmulatedTrainer trainer(cost_of(profile), {.seed = seed});
    CostModel::Options options;
    options.correction.clock = [] {
      return std::chrono::steady_clock::now().time_since_epoch().count();
    };
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
