#include "loader/data_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "loader/data_report.h"
#include "loader/internal/statistics.h"
#include "tests/loader/tar_files.h"

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Statistics, DistributionOfAFewNumbers) {
  const Distribution d = distribution_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(d.mean, 2.5);
  EXPECT_DOUBLE_EQ(d.deviation * d.deviation, 1.25);
  EXPECT_EQ(d.least, 1);
  EXPECT_EQ(d.p50, 2);
  EXPECT_EQ(d.p90, 4);
  EXPECT_EQ(d.most, 4);
  EXPECT_EQ(distribution_of({}).most, 0);
  EXPECT_EQ(distribution_of({7}).p99, 7);
}

TEST(Statistics, Correlations) {
  const std::vector<double> rising = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(correlation(rising, std::vector<double>{2, 4, 6, 8}), 1);
  EXPECT_DOUBLE_EQ(correlation(rising, std::vector<double>{4, 3, 2, 1}), -1);
  EXPECT_EQ(correlation(rising, std::vector<double>{5, 5, 5, 5}), 0);
  EXPECT_EQ(correlation({}, {}), 0);
  // Ranks see order alone; ties share a rank: 1, 2.5, 2.5, 4 against 1..4 is 4.5 / sqrt(4.5 · 5).
  EXPECT_DOUBLE_EQ(rank_correlation(rising, std::vector<double>{1, 10, 100, 1e6}), 1);
  EXPECT_NEAR(rank_correlation(rising, std::vector<double>{1, 7, 7, 9}), 0.948683, 1e-6);
}

TEST(Statistics, ShareOfTheLargest) {
  EXPECT_DOUBLE_EQ(share_of_largest({1, 1, 6, 2}, 0.25), 0.6);
  EXPECT_DOUBLE_EQ(share_of_largest({1, 1, 6, 2}, 0.001), 0.6);  // at least one
  EXPECT_DOUBLE_EQ(share_of_largest({1, 1, 6, 2}, 1), 1);
  EXPECT_EQ(share_of_largest({0, 0}, 0.5), 0);
}

// Fifty captions, every tenth with a picture, and a sound.
class DataProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<TarFile> files;
    for (int i = 0; i < 50; ++i) {
      const std::string key = "<s" + std::to_string(100 + i) + ">";
      if (i % 10 == 3) files.push_back({key + ".png", tiny_png(560, 280)});
      if (i == 7) files.push_back({key + ".wav", tiny_wav(16000)});
      files.push_back({key + ".txt", std::string(static_cast<std::size_t>(1 + i), 'a')});
    }
    write_file(scratch_ / "shards/a.tar", make_tar(files));
    dataset_ = Dataset::open(scratch_ / "shards", {}).value();
    options_.global_batch = 16;
    options_.ranks = 2;
    options_.microbatches = 2;
    options_.batches = 8;
  }
  DataProfile profile() const {
    return profile_data(*dataset_, scratch_ / "shards", options_).value();
  }
  std::string refusal() const {
    const auto refused = profile_data(*dataset_, scratch_ / "shards", options_);
    return refused ? "accepted" : refused.error().message();
  }

  ScratchDirectory scratch_;
  std::unique_ptr<Dataset> dataset_;
  DataProfileOptions options_;
};

TEST_F(DataProfileTest, CountsWhatIsThere) {
  const DataProfile profile = this->profile();
  EXPECT_EQ(profile.dataset_size, 50U);
  EXPECT_EQ(profile.samples.size(), 50U);
  EXPECT_EQ(profile.refused, 0U);
  const auto count = [&](Modality m) { return profile.modalities.at(static_cast<std::size_t>(m)); };
  EXPECT_EQ(count(Modality::kText).samples, 50U);
  EXPECT_EQ(count(Modality::kText).encoded_bytes, 50 * 51 / 2);
  EXPECT_EQ(count(Modality::kImage).samples, 5U);
  EXPECT_EQ(count(Modality::kAudio).parts, 1U);
  EXPECT_EQ(count(Modality::kVideo).samples, 0U);
  const Recipe recipe = Recipe::create({}).value();
  for (const ProfiledSample& sample : profile.samples) {
    EXPECT_EQ(sample.load, recipe.load(dataset_->shape(sample.id)).value());
    EXPECT_GT(sample.llm_s(), 0);
  }
}

TEST_F(DataProfileTest, HeaviestByName) {
  options_.heaviest = 6;
  const DataProfile profile = this->profile();
  ASSERT_EQ(profile.heaviest.size(), 6U);
  // The five pictures, the one with the longest caption first, then what is left.
  EXPECT_EQ(profile.heaviest[0].key, "<s143>");
  EXPECT_EQ(profile.heaviest[0].shard, "a.tar");
  EXPECT_EQ(profile.heaviest[0].parts, "text + image");
  EXPECT_EQ(profile.heaviest[4].key, "<s103>");
  EXPECT_GT(profile.correlation, 0.5);
  EXPECT_GT(profile.heaviest_percent_share, 1.0 / 50);
}

TEST_F(DataProfileTest, SkewOfBatchesInOrderAndBalanced) {
  const CostSkew skew = this->profile().skew;
  EXPECT_GT(skew.blind.microbatch_max_over_mean, 1);
  EXPECT_GT(skew.blind.rank_max_over_mean, 1);
  EXPECT_GE(skew.balanced.rank_max_over_mean, 1);
  EXPECT_LT(skew.balanced.rank_max_over_mean, skew.blind.rank_max_over_mean);
  EXPECT_LT(skew.balanced.step_s, skew.blind.step_s);
  EXPECT_NEAR(skew.saved_share, 1 - skew.balanced.step_s / skew.blind.step_s, 1e-12);
  EXPECT_EQ(skew.blind.example_rank_s.size(), 2U);
  EXPECT_GE(skew.blind.module_max_over_mean[0], 1);  // vision
}

TEST_F(DataProfileTest, ASampleOfTheSamplesIsDrawnOnceAndAlike) {
  options_.samples = 20;
  const DataProfile profile = this->profile();
  ASSERT_EQ(profile.samples.size(), 20U);
  for (std::size_t i = 1; i < 20; ++i) {
    EXPECT_LT(profile.samples[i - 1].id, profile.samples[i].id);
  }
  EXPECT_EQ(this->profile().to_json(), profile.to_json());
  options_.seed = 1;
  EXPECT_NE(this->profile().to_json(), profile.to_json());
}

TEST_F(DataProfileTest, LoadsAreReadBackFromJson) {
  const DataProfile profile = this->profile();
  const auto loads = parse_profiled_loads(profile.to_json());
  ASSERT_TRUE(loads.has_value()) << loads.error().to_string();
  ASSERT_EQ(loads->size(), profile.samples.size());
  for (std::size_t i = 0; i < loads->size(); ++i) {
    EXPECT_EQ((*loads)[i], profile.samples[i].load);
  }
  write_file(scratch_ / "D.json", profile.to_json());
  EXPECT_EQ(load_profiled_loads(scratch_ / "D.json").value(), *loads);
  EXPECT_EQ(load_profiled_loads(scratch_ / "E.json").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(load_profiled_loads(scratch_.path()).error().code(), ErrorCode::kIo);
}

TEST_F(DataProfileTest, WhatIsWrongWithAFileIsNamed) {
  const nlohmann::ordered_json good = nlohmann::ordered_json::parse(profile().to_json());
  const auto says = [](const nlohmann::ordered_json& json) {
    const auto loads = parse_profiled_loads(json.dump());
    return loads ? "accepted" : loads.error().message();
  };
  auto bad = good;
  bad["kind"] = "profile";
  EXPECT_THAT(says(bad), HasSubstr("isocost profile-data --json writes such files"));
  bad = good;
  bad["version"] = 2;
  EXPECT_THAT(says(bad), HasSubstr("reads version 1"));
  bad = good;
  bad["loads"]["columns"].erase(0);
  EXPECT_THAT(says(bad), HasSubstr("'loads.columns' must be"));
  bad = good;
  bad["loads"]["rows"] = nlohmann::ordered_json::array();
  EXPECT_THAT(says(bad), HasSubstr("'loads.rows' is empty"));
  for (const nlohmann::ordered_json& value :
       {nlohmann::ordered_json(-1), nlohmann::ordered_json(1.5),
        nlohmann::ordered_json(std::uint64_t{1} << 63U)}) {
    bad = good;
    bad["loads"]["rows"][3][1] = value;
    EXPECT_THAT(says(bad), HasSubstr("'loads.rows[3]' vision_units must be a whole number"));
  }
  bad["loads"]["rows"][3] = {1, 2};
  EXPECT_THAT(says(bad), HasSubstr("'loads.rows[3]' must be 11 numbers"));
  EXPECT_THAT(says("text"), HasSubstr("not a JSON object"));
  EXPECT_EQ(parse_profiled_loads("{").error().code(), ErrorCode::kCorrupt);
}

TEST_F(DataProfileTest, TheReportNeedsNothingElseAndEscapesNames) {
  const std::string html = data_report_html(profile());
  EXPECT_THAT(html, HasSubstr("&lt;s143&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<s143>")));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  std::size_t plots = 0;
  for (std::size_t at = 0; (at = html.find("<svg", at)) != std::string::npos; ++at) ++plots;
  EXPECT_EQ(plots, 5U);
}

TEST_F(DataProfileTest, RefusesWhatCannotBeDone) {
  options_.ranks = 9;
  EXPECT_EQ(refusal(), "global_batch = 16: 9 ranks × 2 microbatches need at least 18");
  options_.ranks = 0;
  EXPECT_EQ(refusal(), "ranks = 0: allowed are 1 to 100000");
  options_.ranks = 2;
  std::stop_source stopped;
  stopped.request_stop();
  options_.stop = stopped.get_token();
  EXPECT_EQ(profile_data(*dataset_, "d", options_).error().code(), ErrorCode::kCancelled);
}

TEST_F(DataProfileTest, TellsHowFarItIs) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
  options_.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view) {
    told.emplace_back(done, total);
  };
  profile();
  EXPECT_EQ(told.front(), std::pair(std::uint64_t{50}, std::uint64_t{50}));
  EXPECT_EQ(told.back(), std::pair(std::uint64_t{8}, std::uint64_t{8}));
}

}  // namespace
}  // namespace isocost
