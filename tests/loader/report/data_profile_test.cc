#include "loader/report/data_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loader/report/data_report.h"
#include "tests/loader/report/data_profile_fixture.h"

namespace isocost {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(DataProfileTest, CountsSamplesByModality) {
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

TEST_F(DataProfileTest, SourcesOfAMixtureHaveTheirSharesOfAPass) {
  EXPECT_TRUE(profile().sources.empty());
  EXPECT_FALSE(nlohmann::json::parse(profile().to_json()).contains("sources"));
  DataSources data{.given = "mixture.toml", .sources = {}};
  for (const char* name : {"one", "two"}) {
    data.sources.push_back({.name = name, .data = (scratch_ / "shards/a.tar").string()});
  }
  dataset_ = Dataset::open(data, {}).value();
  const DataProfile profile = this->profile();
  ASSERT_EQ(profile.sources.size(), 2U);
  std::int64_t tokens = 0;
  for (const ProfiledSample& sample : profile.samples)
    tokens += sample.load[CostModule::kLlm].units;
  EXPECT_EQ(profile.sources[0].name, "one");
  EXPECT_EQ(profile.sources[0].size, 50U);
  EXPECT_EQ(profile.sources[0].profiled, 50U);
  EXPECT_EQ(profile.sources[0].tokens, tokens / 2);
  const auto sources = nlohmann::json::parse(profile.to_json())["sources"];
  EXPECT_EQ(sources[1]["name"], "two");
  EXPECT_EQ(sources[1]["llm_tokens_share"], 0.5);
  EXPECT_EQ(sources[1]["llm_tokens_mean"].get<double>(), static_cast<double>(tokens) / 100);
  ProfiledSource part{.name = "part", .size = 30, .profiled = 10};
  EXPECT_EQ(part.of_all(7), 21);
  part.profiled = 0;
  EXPECT_EQ(part.of_all(0), 0);
}

TEST_F(DataProfileTest, MostExpensiveByName) {
  options_.most_expensive = 6;
  const DataProfile profile = this->profile();
  ASSERT_EQ(profile.most_expensive.size(), 6U);
  // The five pictures, the one with the longest caption first, then what is left.
  EXPECT_EQ(profile.most_expensive[0].key, "<s143>");
  EXPECT_EQ(profile.most_expensive[0].shard, "a.tar");
  EXPECT_EQ(profile.most_expensive[0].parts, "text + image");
  EXPECT_EQ(profile.most_expensive[4].key, "<s103>");
  EXPECT_GT(profile.correlation, 0.5);
  EXPECT_GT(profile.most_expensive_percent_share, 1.0 / 50);
}

TEST_F(DataProfileTest, SkewOfBatchesByPolicy) {
  const CostSkew skew = this->profile().skew;
  const CostSkew::Policy& in_order = skew[BalancePolicy::kInOrder];
  const CostSkew::Policy& tokens = skew[BalancePolicy::kTokens];
  const CostSkew::Policy& cost = skew[BalancePolicy::kCost];
  EXPECT_GT(in_order.microbatch_max_over_mean, 1);
  EXPECT_GT(in_order.rank_max_over_mean, 1);
  EXPECT_GE(cost.rank_max_over_mean, 1);
  EXPECT_LT(cost.rank_max_over_mean, in_order.rank_max_over_mean);
  EXPECT_LT(cost.step_s, in_order.step_s);
  EXPECT_GT(in_order.microbatch_max_over_mean_deviation, 0);
  EXPECT_GT(in_order.step_s_deviation, 0);
  EXPECT_LT(cost.rank_max_over_mean_deviation, in_order.rank_max_over_mean_deviation);
  EXPECT_NEAR(cost.saved_share, 1 - cost.step_s / in_order.step_s, 1e-12);
  EXPECT_NEAR(tokens.saved_share, 1 - tokens.step_s / in_order.step_s, 1e-12);
  EXPECT_GT(cost.saved_share_deviation, 0);
  EXPECT_EQ(in_order.saved_share, 0);
  EXPECT_EQ(in_order.saved_share_deviation, 0);
  // Tokens do not tell what the pictures cost.
  EXPECT_LT(tokens.step_s, in_order.step_s);
  EXPECT_LT(cost.step_s, tokens.step_s);
  EXPECT_EQ(tokens.example_rank_s.size(), 2U);
  EXPECT_EQ(in_order.example_rank_s.size(), 2U);
  EXPECT_GE(in_order.module_max_over_mean[0], 1);  // vision
}

TEST_F(DataProfileTest, ADrawOfSamplesIsDistinctAndReproducible) {
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

TEST_F(DataProfileTest, JsonHasEveryPolicy) {
  const DataProfile profile = this->profile();
  const auto skew = nlohmann::json::parse(profile.to_json())["skew"];
  EXPECT_EQ(skew["in-order"]["step_s"], profile.skew[BalancePolicy::kInOrder].step_s);
  EXPECT_EQ(skew["tokens"]["rank_max_over_mean"],
            profile.skew[BalancePolicy::kTokens].rank_max_over_mean);
  EXPECT_EQ(skew["cost"]["saved_share"], profile.skew[BalancePolicy::kCost].saved_share);
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
  EXPECT_EQ(load_profiled_loads(scratch_.path()).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(DataProfileTest, ErrorsNameTheField) {
  const nlohmann::ordered_json good = nlohmann::ordered_json::parse(profile().to_json());
  const auto says = [](const nlohmann::ordered_json& json) {
    const auto loads = parse_profiled_loads(json.dump());
    return loads ? "accepted" : loads.error().message();
  };
  auto bad = good;
  bad["kind"] = "profile";
  EXPECT_THAT(says(bad), HasSubstr("isocost data profile --json writes such files"));
  bad = good;
  bad["version"] = 2;
  EXPECT_THAT(says(bad), HasSubstr("reads version 3: run isocost data profile again"));
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

TEST_F(DataProfileTest, TextAloneHasNoCorrelation) {
  std::vector<TarFile> files;
  for (int i = 0; i < 20; ++i) {
    files.push_back({"t" + std::to_string(100 + i) + ".txt",
                     std::string(static_cast<std::size_t>(1 + i), 'a')});
  }
  write_file(scratch_ / "texts/a.tar", make_tar(files));
  dataset_ = Dataset::open(scratch_ / "texts", {}).value();
  const DataProfile profile = this->profile();
  EXPECT_EQ(profile.correlation, std::nullopt);
  EXPECT_EQ(profile.rank_correlation, std::nullopt);
  EXPECT_TRUE(nlohmann::json::parse(profile.to_json())["correlation"].is_null());
  const std::string html = data_report_html(profile);
  EXPECT_THAT(html, HasSubstr("Correlation -, rank correlation -"));
  EXPECT_THAT(html, Not(HasSubstr("patches per sample")));
  EXPECT_THAT(html, Not(HasSubstr(">1 s<")));  // no column for encoder seconds above 0
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

TEST_F(DataProfileTest, GpuHours) {
  EXPECT_EQ(this->profile().gpu_hours(), std::nullopt);  // proportions only
  EXPECT_TRUE(nlohmann::json::parse(this->profile().to_json())["gpu_hours"].is_null());
  options_.model_profile.source = "measured.json";
  const DataProfile measured = this->profile();
  const GpuHours epoch = measured.gpu_hours().value();
  EXPECT_FALSE(epoch.of_run);
  for (const BalancePolicy policy :
       {BalancePolicy::kInOrder, BalancePolicy::kTokens, BalancePolicy::kCost}) {
    const CostSkew::Policy& skew = measured.skew[policy];
    EXPECT_NEAR(epoch.of(policy), 50.0 / 16 * 2 * skew.step_s / 3600, 1e-12);
    EXPECT_NEAR(epoch.saved(policy), epoch.of(BalancePolicy::kInOrder) * skew.saved_share, 1e-12);
  }
  options_.gpu_hours = 1000;
  const DataProfile profile = this->profile();
  const GpuHours run = profile.gpu_hours().value();
  EXPECT_TRUE(run.of_run);
  EXPECT_EQ(run.of(BalancePolicy::kInOrder), 1000);
  const double saved = run.saved(BalancePolicy::kCost);
  EXPECT_NEAR(saved, 1000 * profile.skew[BalancePolicy::kCost].saved_share, 1e-9);
  const auto json = nlohmann::json::parse(profile.to_json())["gpu_hours"];
  EXPECT_EQ(json["of"], "run");
  EXPECT_EQ(json["in-order"], 1000);
  EXPECT_EQ(json["tokens"], run.of(BalancePolicy::kTokens));
  EXPECT_EQ(json["saved"], saved);
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0}) {
    options_.gpu_hours = wrong;
    EXPECT_THAT(refusal(), HasSubstr("gpu_hours = ")) << wrong;
    EXPECT_THAT(refusal(), HasSubstr("allowed are 0 to 1e12")) << wrong;
  }
}

TEST_F(DataProfileTest, RefusesWhatCannotBeDone) {
  options_.ranks = 9;
  EXPECT_EQ(
      refusal(),
      "global_batch_size = 16: 9 ranks × 2 microbatches need at least 18: give a larger one, or "
      "fewer microbatches");
  options_.ranks = 0;
  EXPECT_EQ(refusal(), "ranks = 0: allowed are 1 to 100000");
  options_.ranks = 2;
  options_.batches = -1;
  EXPECT_EQ(refusal(), "batches = -1: allowed are 1 to 100000");
  options_.batches = 8;
  std::stop_source stopped;
  stopped.request_stop();
  options_.stop = stopped.get_token();
  EXPECT_EQ(make_data_profile(*dataset_, "d", options_).error().code(), ErrorCode::kCancelled);
}

TEST_F(DataProfileTest, ReportsProgress) {
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
