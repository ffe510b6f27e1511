#include "loader/plan/batch_composer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/plan/planner.h"
#include "tests/support/tar_files.h"

namespace isocost {
namespace {

constexpr std::uint64_t kWindow = 3;

// Sixty captions of unlike length, every eighth with a picture that outweighs its company.
class BatchComposerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<TarFile> files;
    for (int i = 0; i < 60; ++i) {
      const std::string key = "s" + std::to_string(100 + i);
      if (i % 8 == 3) files.push_back({key + ".png", tiny_png(700, 700)});
      files.push_back({key + ".txt", std::string(static_cast<std::size_t>(20 + i * 7 % 50), 'a')});
    }
    write_file(scratch_ / "shards/a.tar", make_tar(files));
    dataset_ = Dataset::open(scratch_ / "shards", {}).value();
    ASSERT_EQ(dataset_->size(), 60U);
    options_.ranks = 4;
    options_.microbatches = 1;
    options_.global_batch_size = 8;
    options_.lookahead = kWindow;
    cursor_options_.seed = 5;
    cursor_options_.size = 60;
    cursor_options_.global_batch_size = 8;
    cursor_options_.epochs = 2;
  }

  Cursor cursor() const { return Cursor(cursor_options_); }
  BatchComposer composer(const Cursor& cursor) const {
    return {{&cursor, dataset_.get(), &recipe_}, options_, profile_};
  }
  std::vector<std::vector<SampleId>> epoch_of(BatchComposer& composer, const Cursor& cursor) const {
    std::vector<std::vector<SampleId>> batches;
    for (std::uint64_t step = 0; step < cursor.steps(0); ++step) {
      batches.push_back(composer.batch(0, step).value());
    }
    return batches;
  }

  ScratchDirectory scratch_ = ScratchDirectory::create("isocost-test").value();
  std::unique_ptr<Dataset> dataset_;
  Recipe recipe_ = Recipe::create({}).value();
  CostProfile profile_ = CostProfile::stated_default();
  PlanOptions options_;
  CursorOptions cursor_options_;
};

TEST_F(BatchComposerTest, AWindowOfOneGivesTheCursorsBatches) {
  options_.lookahead = 1;
  const Cursor drawn = cursor();
  BatchComposer composer = this->composer(drawn);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::uint64_t step = 0; step <= drawn.steps(epoch); ++step) {
      EXPECT_EQ(composer.batch(epoch, step).value(), drawn.batch(epoch, step));
    }
  }
  EXPECT_EQ(composer.fingerprint(), drawn.fingerprint(dataset_->fingerprint()));
}

TEST_F(BatchComposerTest, EverySampleOnceAndNoneLeavesItsWindow) {
  for (const TailPolicy tail : {TailPolicy::kDeliver, TailPolicy::kDrop, TailPolicy::kCarry}) {
    cursor_options_.tail = tail;
    const Cursor drawn = cursor();
    BatchComposer composer = this->composer(drawn);
    std::map<SampleId, int> seen;
    bool moved = false;
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::multiset<SampleId> window_drawn;
      std::multiset<SampleId> window_composed;
      for (std::uint64_t step = 0; step < drawn.steps(epoch); ++step) {
        const auto as_drawn = drawn.batch(epoch, step);
        const auto composed = composer.batch(epoch, step).value();
        EXPECT_EQ(composed.size(), as_drawn.size());
        moved = moved || composed != as_drawn;
        for (const SampleId id : composed) ++seen[id];
        window_drawn.insert(as_drawn.begin(), as_drawn.end());
        window_composed.insert(composed.begin(), composed.end());
        if ((step + 1) % kWindow == 0 || step + 1 == drawn.steps(epoch)) {
          EXPECT_EQ(window_composed, window_drawn) << epoch << ", " << step;
          window_drawn.clear();
          window_composed.clear();
        }
      }
      EXPECT_TRUE(composer.batch(epoch, drawn.steps(epoch)).value().empty());
    }
    EXPECT_TRUE(moved);
    if (tail == TailPolicy::kDrop) continue;
    EXPECT_EQ(seen.size(), 60U);
    for (const auto& [id, times] : seen) EXPECT_EQ(times, 2) << id;
  }
}

TEST_F(BatchComposerTest, ComposesUnderLimitsAndWithoutAFixedNumberOfMicrobatches) {
  const Cursor drawn = cursor();
  std::set<std::uint64_t> fingerprints = {composer(drawn).fingerprint()};
  options_.max_tokens = 3'000;
  const auto limits = MicrobatchLimits::create(options_, profile_).value();
  for (const std::int64_t microbatches : {1, 2, 0}) {
    options_.microbatches = microbatches;
    BatchComposer composer({&drawn, dataset_.get(), &recipe_, nullptr, &limits}, options_,
                           profile_);
    EXPECT_TRUE(fingerprints.insert(composer.fingerprint()).second);
    std::set<SampleId> seen;
    bool moved = false;
    for (std::uint64_t step = 0; step < drawn.steps(0); ++step) {
      const auto batch = composer.batch(0, step).value();
      moved = moved || batch != drawn.batch(0, step);
      seen.insert(batch.begin(), batch.end());
    }
    EXPECT_EQ(seen.size(), 60U) << microbatches;
    EXPECT_TRUE(moved) << microbatches;
  }
}

// Microbatches of an epoch, each step with as few as the limits allow.
std::int64_t microbatches_of(const std::vector<std::vector<SampleId>>& batches,
                             const Dataset& dataset, const Recipe& recipe,
                             const PlanOptions& options) {
  const CostModel model(CostProfile::stated_default(), {});
  std::int64_t count = 0;
  for (const auto& batch : batches) {
    PlanInput input;
    for (const SampleId id : batch) {
      input.loads.push_back(recipe.load(dataset.shape(id)).value());
      input.weights.push_back(1.0F);
      input.ids.push_back(id);
    }
    const StepPlan plan = plan_step(input, model, options).value();
    for (const PlannedMicrobatch& bin : plan.bins) {
      EXPECT_LE(bin.load[CostModule::kLlm].units, options.max_tokens);
    }
    count += plan.microbatches;
  }
  return count;
}

TEST_F(BatchComposerTest, LimitsHoldAndComposedStepsNeedNoMoreMicrobatches) {
  const Cursor drawn = cursor();
  std::vector<std::vector<SampleId>> as_drawn;
  for (std::uint64_t step = 0; step < drawn.steps(0); ++step) {
    as_drawn.push_back(drawn.batch(0, step));
  }
  options_.microbatches = 0;
  options_.ranks = 2;
  bool moved = false;
  for (const std::int64_t most : {700, 800, 1'000, 1'400, 3'000}) {
    options_.max_tokens = most;
    const auto limits = MicrobatchLimits::create(options_, profile_).value();
    BatchComposer composer({&drawn, dataset_.get(), &recipe_, nullptr, &limits}, options_,
                           profile_);
    const auto composed = epoch_of(composer, drawn);
    moved = moved || composed != as_drawn;
    EXPECT_LE(microbatches_of(composed, *dataset_, recipe_, options_),
              microbatches_of(as_drawn, *dataset_, recipe_, options_))
        << most;
  }
  EXPECT_TRUE(moved);
}

TEST_F(BatchComposerTest, AnyBatchByItselfIsTheSame) {
  const Cursor drawn = cursor();
  BatchComposer walking = this->composer(drawn);
  const auto expected = epoch_of(walking, drawn);
  for (std::uint64_t step = expected.size(); step-- > 0;) {
    BatchComposer fresh = this->composer(drawn);
    EXPECT_EQ(fresh.batch(0, step).value(), expected[step]) << step;
    EXPECT_EQ(walking.batch(0, step).value(), expected[step]) << step;
  }
}

TEST_F(BatchComposerTest, DominantSamplesComeTogether) {
  const Cursor drawn = cursor();
  BatchComposer composer = this->composer(drawn);
  const auto with_dominant_samples = [&](const std::vector<std::vector<SampleId>>& batches) {
    return std::count_if(batches.begin(), batches.end(), [&](const auto& batch) {
      return std::any_of(batch.begin(), batch.end(),
                         [&](SampleId id) { return dataset_->shape(id).parts.size() > 1; });
    });
  };
  std::vector<std::vector<SampleId>> as_drawn;
  for (std::uint64_t step = 0; step < drawn.steps(0); ++step) {
    as_drawn.push_back(drawn.batch(0, step));
  }
  EXPECT_LT(with_dominant_samples(epoch_of(composer, drawn)), with_dominant_samples(as_drawn));
}

TEST_F(BatchComposerTest, AnEpochCutShortKeepsItsSamples) {
  cursor_options_.max_steps = 5;  // a window of three steps and one of two
  const Cursor drawn = cursor();
  EXPECT_EQ(drawn.steps(0), 5U);
  BatchComposer composer = this->composer(drawn);
  std::multiset<SampleId> expected;
  std::multiset<SampleId> composed;
  for (std::uint64_t step = 0; step < 5; ++step) {
    for (const SampleId id : drawn.batch(0, step)) expected.insert(id);
    const auto batch = composer.batch(0, step).value();
    composed.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(composed, expected);
}

TEST_F(BatchComposerTest, AStateContinuesWhereItsWindowsAreTheSame) {
  const Cursor drawn = cursor();
  const std::uint64_t saved = composer(drawn).fingerprint();
  EXPECT_NE(saved, 0U);
  for (std::uint64_t step = 0; step < 7; ++step) {
    EXPECT_TRUE(composer(drawn).continues(saved, step));
  }
  // For other ranks windows are shared out otherwise: only at a window's start is that no matter.
  options_.ranks = 2;
  EXPECT_TRUE(composer(drawn).continues(saved, 0));
  EXPECT_TRUE(composer(drawn).continues(saved, kWindow));
  EXPECT_FALSE(composer(drawn).continues(saved, kWindow + 1));
  options_.ranks = 4;
  profile_.source = "elsewhere";
  EXPECT_EQ(composer(drawn).fingerprint(), saved);
  profile_.modules[0].coefficients.per_unit *= 2;
  EXPECT_FALSE(composer(drawn).continues(saved, 1));
  profile_ = CostProfile::stated_default();
  // Another window, or other data, is another order everywhere.
  options_.lookahead = 2;
  EXPECT_FALSE(composer(drawn).continues(saved, 0));
  options_.lookahead = 1;
  EXPECT_FALSE(composer(drawn).continues(saved, 0));
  options_.lookahead = kWindow;
  cursor_options_.seed = 6;
  const Cursor other = cursor();
  EXPECT_FALSE(composer(other).continues(saved, 0));
}

}  // namespace
}  // namespace isocost
