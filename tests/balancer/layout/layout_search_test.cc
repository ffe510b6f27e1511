#include "balancer/layout/layout_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "balancer/layout/internal/layout_space.h"
#include "base/random.h"
#include "costmodel/sample_cost.h"

namespace isocost {
namespace {

// Half documents, half short videos, priced by the stated default profile.
std::vector<std::vector<SampleCost>> draw_batches(std::size_t count, std::size_t samples,
                                                  std::uint64_t seed) {
  Random random(seed);
  const SamplePrices prices(CostProfile::stated_default());
  std::vector<std::vector<SampleCost>> batches(count);
  for (auto& batch : batches) {
    for (std::size_t i = 0; i < samples; ++i) {
      const bool video = random.below(2) == 0;
      const auto patches = static_cast<std::int64_t>(video ? 8000 + random.below(8000)
                                                           : 1024 * (1 + random.below(5)));
      const auto tokens = static_cast<std::int64_t>(patches / 4 + 100 + random.below(200));
      batch.push_back(prices.of(load_of_counts(patches, tokens)));
    }
  }
  return batches;
}

class LayoutSearch : public testing::Test {
 protected:
  LayoutSearch() { context_.executor = executor_.get(); }

  JobModel job_;
  LayoutSearchOptions options_{.gpus = 16, .evaluations = 400};
  std::unique_ptr<Executor> executor_ = make_executor(2);
  LayoutSearchContext context_;
  std::vector<std::vector<SampleCost>> batches_ = draw_batches(2, 64, 1);
};

TEST_F(LayoutSearch, IsNoSlowerThanAnyLayoutItCouldChoose) {
  const auto found = search_layouts(job_, batches_, options_, context_);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  ASSERT_FALSE(found->best.empty());
  const LayoutScore& best = found->best.front();
  EXPECT_TRUE(best.fits);
  EXPECT_LE(best.memory_bytes, job_.cluster.gpu_memory);
  EXPECT_EQ(best.layout.ranks(), options_.gpus);
  ASSERT_TRUE(found->alike.has_value());
  EXPECT_LE(best.step_s, found->alike->step_s);
  if (found->mean_shape && found->mean_shape->fits) {
    EXPECT_LE(best.step_s, found->mean_shape->step_s);
  }
  // Plans every layout without local search: none that fits is faster by more than search gains.
  const auto space = enumerate_layouts(job_, BatchSummary::of(batches_), options_, context_);
  ASSERT_TRUE(space.has_value());
  EXPECT_GT(space->candidates.size(), 100U);
  for (const LayoutCandidate& candidate : space->candidates) {
    const auto score = score_layout(job_, candidate.layout, batches_, options_, 0);
    ASSERT_TRUE(score.has_value()) << score.error().message();
    EXPECT_GE(score->step_s, candidate.bound_s * (1 - 1e-9)) << candidate.layout.to_string();
    if (score->fits) {
      EXPECT_GE(score->step_s, 0.99 * best.step_s) << candidate.layout.to_string();
    }
  }
}

// With little memory, on machines of one rank, so that stages recompute different activations.
TEST_F(LayoutSearch, NoPlanIsBelowTheBoundOfItsLayout) {
  job_.cluster.gpus_per_node = 1;
  job_.cluster.gpu_memory = 40 * kGiB;
  options_.most_recompute = Recompute::kFull;
  options_.shard_weights = true;
  const auto space = enumerate_layouts(job_, BatchSummary::of(batches_), options_, context_);
  ASSERT_TRUE(space.has_value());
  std::size_t by_stage = 0;
  std::size_t gathered = 0;
  for (const LayoutCandidate& candidate : space->candidates) {
    const auto score = score_layout(job_, candidate.layout, batches_, options_, 0);
    ASSERT_TRUE(score.has_value()) << score.error().message();
    EXPECT_GE(score->step_s, candidate.bound_s * (1 - 1e-9)) << candidate.layout.to_string();
    by_stage += candidate.layout.llm_training.by_stage() ? 1 : 0;
    gathered += candidate.layout.llm_training.reshard ? 0 : 1;
  }
  EXPECT_GT(by_stage, 50U);
  EXPECT_GT(gathered, 10U);
}

TEST_F(LayoutSearch, TheResultDoesNotDependOnTheNumberOfWorkers) {
  options_.most_recompute = Recompute::kFull;
  options_.shard_weights = true;
  const auto first = search_layouts(job_, batches_, options_, context_);
  ASSERT_TRUE(first.has_value());
  for (const std::size_t workers : {1U, 16U}) {
    const auto executor = make_executor(workers);
    context_.executor = executor.get();
    const auto second = search_layouts(job_, batches_, options_, context_);
    ASSERT_TRUE(second.has_value());
    ASSERT_EQ(first->best.size(), second->best.size());
    for (std::size_t i = 0; i < first->best.size(); ++i) {
      EXPECT_EQ(first->best[i].layout, second->best[i].layout);
      EXPECT_EQ(first->best[i].step_s, second->best[i].step_s);
    }
  }
}

TEST_F(LayoutSearch, ResumesFromRecords) {
  std::map<std::string, LayoutScore, std::less<>> known;
  std::stop_source stop;
  context_.stop = stop.get_token();
  context_.recall = [&known](std::string_view key) -> std::optional<LayoutScore> {
    const auto found = known.find(key);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  };
  context_.record = [&](const LayoutRecord& record) {
    EXPECT_TRUE(known.emplace(record.key, record.score).second) << record.key;
    if (known.size() == 40) stop.request_stop();
  };
  const auto stopped = search_layouts(job_, batches_, options_, context_);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
  context_.stop = {};
  const auto resumed = search_layouts(job_, batches_, options_, context_);
  context_.recall = {};
  context_.record = {};
  const auto whole = search_layouts(job_, batches_, options_, context_);
  ASSERT_TRUE(resumed.has_value() && whole.has_value());
  EXPECT_EQ(resumed->best.front().layout, whole->best.front().layout);
  EXPECT_EQ(resumed->best.front().step_s, whole->best.front().step_s);
}

TEST_F(LayoutSearch, NamesTheMissingMemoryIfNoLayoutFits) {
  job_.cluster.gpu_memory = 4 * kGiB;
  const auto found = search_layouts(job_, batches_, options_, context_);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(found.error().message(), testing::HasSubstr("3.6 GiB are usable"));
}

TEST_F(LayoutSearch, RefusesMixturesOfExperts) {
  job_.llm.experts = 128;
  const auto found = search_layouts(job_, batches_, options_, context_);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(found.error().message(),
              testing::AllOf(testing::HasSubstr("has layers with 128 experts"),
                             testing::HasSubstr("missing are expert parallelism"),
                             testing::HasSubstr("isocost serve --profile FILE --ranks N")));
}

TEST_F(LayoutSearch, NeedsBatches) {
  EXPECT_FALSE(search_layouts(job_, {}, options_, context_).has_value());
  context_.executor = nullptr;
  EXPECT_FALSE(search_layouts(job_, batches_, options_, context_).has_value());
}

TEST_F(LayoutSearch, MoreMemoryIsNeverSlower) {
  const auto usual = search_layouts(job_, batches_, options_, context_);
  job_.cluster.gpu_memory = 400 * kGiB;
  const auto roomy = search_layouts(job_, batches_, options_, context_);
  ASSERT_TRUE(usual.has_value() && roomy.has_value());
  EXPECT_LE(roomy->best.front().step_s, usual->best.front().step_s * 1.01);
}

// Few stages of large modules fit only if each microbatch holds few samples.
TEST_F(LayoutSearch, TriesManyMicrobatchesWhereMemoryIsTight) {
  options_.gpus = 8;
  job_.cluster.gpu_memory = 48 * kGiB;
  const auto found = search_layouts(job_, draw_batches(2, 512, 1), options_, context_);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  const Layout& best = found->best.front().layout;
  const bool own = best.encoder_place == EncoderPlacement::kOwnRanks;
  const std::size_t stages = best.llm.pipeline + (own ? best.encoder.pipeline : 0);
  EXPECT_GT(best.microbatches, 16 * stages) << best.to_string();
}

TEST_F(LayoutSearch, ReturnsTheRequestedNumberOfLayouts) {
  options_.keep = 40;
  std::uint64_t first_total = 0;
  context_.progress = [&](std::uint64_t, std::uint64_t total, std::string_view what) {
    if (what == "screening layouts") first_total = total;
  };
  const auto found = search_layouts(job_, batches_, options_, context_);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(found->best.size(), 40U);
  EXPECT_EQ(first_total, options_.screened_layouts);
  // The total does not exceed the number of layouts.
  options_.gpus = 4;
  const auto few = enumerate_layouts(job_, BatchSummary::of(batches_), options_, context_);
  ASSERT_TRUE(few.has_value());
  if (search_layouts(job_, batches_, options_, context_).has_value()) {
    EXPECT_EQ(first_total, std::min(options_.screened_layouts, few->candidates.size()));
  }
}

// A layout is pruned by memory only if no plan fits it. There are few samples of different sizes,
// so that plans can place large microbatches far apart.
TEST_F(LayoutSearch, PrunesByMemoryOnlyLayoutsThatNoPlanFits) {
  Random random(3);
  const SamplePrices prices(job_.profile);
  options_.gpus = 5;
  int looked = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::vector<SampleCost>> batches(1);
    for (int i = 0; i < 3 + round; ++i) {
      const std::int64_t patches = i < 2 || random.below(2) == 0 ? 40'000 : 40;
      batches[0].push_back(prices.of(load_of_counts(patches, 20 + patches / 4)));
    }
    const BatchSummary summary = BatchSummary::of(batches);
    JobModel roomy = job_;
    roomy.cluster.gpu_memory = 100'000 * kGiB;
    const auto all = enumerate_layouts(roomy, summary, options_, context_);
    ASSERT_TRUE(all.has_value());
    for (std::size_t i = 0; i < all->candidates.size(); ++i) {
      const Layout& layout = all->candidates[i].layout;
      JobModel tight = job_;
      tight.cluster.gpu_memory = 1;  // the search then minimises activations
      const auto score = score_layout(tight, layout, batches, options_, 200);
      ASSERT_TRUE(score.has_value());
      tight.cluster.gpu_memory = static_cast<std::int64_t>(
          std::ceil(static_cast<double>(score->memory_bytes) / options_.usable_memory));
      const auto kept = enumerate_layouts(tight, summary, options_, context_);
      EXPECT_TRUE(std::any_of(
          kept->candidates.begin(), kept->candidates.end(),
          [&layout](const LayoutCandidate& candidate) { return candidate.layout == layout; }))
          << layout.to_string() << " round " << round;
      ++looked;
    }
  }
  EXPECT_GT(looked, 100);
}

// Covers every part of a search that may take long, not only its rounds.
TEST_F(LayoutSearch, EveryPartReportsProgressAndCanBeCancelled) {
  std::map<std::string, std::uint64_t, std::less<>> told;
  context_.progress = [&told](std::uint64_t done, std::uint64_t total, std::string_view what) {
    EXPECT_LE(done, total);
    told[std::string(what)] = done;
  };
  const auto rule = mean_shape_layout(job_, batches_, options_, context_);
  ASSERT_TRUE(rule.has_value());
  EXPECT_TRUE(rule->has_value());
  EXPECT_GT(told["evaluating the mean-shape rule"], 0U);
  ASSERT_TRUE(enumerate_layouts(job_, BatchSummary::of(batches_), options_, context_).has_value());
  EXPECT_GT(told["listing layouts"], 0U);

  std::stop_source stop;
  context_.stop = stop.get_token();
  // A stop request in the middle of a part ends it.
  told.clear();
  context_.progress = [&](std::uint64_t done, std::uint64_t, std::string_view what) {
    told[std::string(what)] = done;
    stop.request_stop();
  };
  const auto stopped = mean_shape_layout(job_, batches_, options_, context_);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::kCancelled);
  const auto unlisted = enumerate_layouts(job_, BatchSummary::of(batches_), options_, context_);
  ASSERT_FALSE(unlisted.has_value());
  EXPECT_EQ(unlisted.error().code(), ErrorCode::kCancelled);
}

TEST(WhySlower, NamesTheLargestPart) {
  const LayoutScore best{.step_s = 10, .work_s = 8, .reduce_s = 1};
  EXPECT_THAT(why_slower(best, {.step_s = 12, .work_s = 10, .reduce_s = 1}),
              testing::HasSubstr("works 2.000 s longer"));
  EXPECT_THAT(why_slower(best, {.step_s = 12, .work_s = 8, .reduce_s = 1}),
              testing::HasSubstr("waits 2.000 s longer"));
  EXPECT_THAT(why_slower(best, {.step_s = 12, .work_s = 8, .reduce_s = 3}),
              testing::HasSubstr("reducing gradients takes 2.000 s longer"));
  EXPECT_EQ(why_slower(best, best), "it is equally fast");
}

}  // namespace
}  // namespace isocost
