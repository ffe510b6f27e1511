#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

class BadInput : public LoopTest {
 protected:
  // Overwrites part of a PNG's body in place. Its header stays as it is, and so the index does,
  // too.
  void break_body_of_sample(const std::string& key);
  std::vector<nlohmann::json> bad_list() const;
};

void BadInput::break_body_of_sample(const std::string& key) {
  for (const auto& entry : std::filesystem::directory_iterator(shards())) {
    if (entry.path().extension() != ".tar") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    const std::size_t header = bytes.find(key + ".png");
    if (header == std::string::npos) continue;
    file.clear();
    file.seekp(static_cast<std::streamoff>(header) + 512 + 100);
    const std::string garbage(200, '\x5A');
    file.write(garbage.data(), static_cast<std::streamsize>(garbage.size()));
    ASSERT_TRUE(file.good());
    return;
  }
  FAIL() << "no member " << key << ".png";
}

std::vector<nlohmann::json> BadInput::bad_list() const {
  std::vector<nlohmann::json> lines;
  std::ifstream file(scratch() / "bad.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_F(BadInput, AnEpochOfOnlyBadSamplesFails) {
  make_dataset(1);
  break_body_of_sample(png_key(0));
  const auto outcome = try_run(options(1), {});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().message().find("every sample of epoch 0 is bad"), std::string::npos);
}

TEST_F(BadInput, AnEpochWithoutAStepIsRefused) {
  make_dataset(10);
  NodeOptions dropping = options(1);
  dropping.plan.tail = TailPolicy::kDrop;
  dropping.plan.epochs = 0;
  const auto outcome = try_run(dropping, {});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().message().find("an epoch has no step"), std::string::npos);
}

TEST_F(BadInput, IsSkippedListedAndLeftOutOfTheLoss) {
  make_dataset(40);
  break_body_of_sample(png_key(0));
  break_body_of_sample(png_key(1));
  const Delivered run_result = run(options(2));
  EXPECT_EQ(run_result.counts(0).size(), 38U);
  EXPECT_EQ(run_result.summary.bad, 2U);
  const auto lines = bad_list();
  ASSERT_EQ(lines.size(), 2U);
  std::set<std::string> keys;
  for (const auto& line : lines) {
    keys.insert(line.at("key"));
    EXPECT_EQ(line.at("part"), "png");
    EXPECT_FALSE(line.at("reason").get<std::string>().empty());
    EXPECT_TRUE(line.at("shard").get<std::string>().ends_with(".tar"));
  }
  EXPECT_EQ(keys, (std::set<std::string>{png_key(0), png_key(1)}));

  std::map<std::uint32_t, std::int64_t> labels;
  for (const auto& rank : run_result.ranks) {
    for (const Received& seen : rank) labels[seen.position.step] += seen.label_positions;
  }
  for (const Received& seen : run_result.ranks.front()) {
    EXPECT_EQ(static_cast<std::int64_t>(seen.global_label_tokens), labels[seen.position.step]);
  }
}

TEST_F(BadInput, IsReplacedByTheSameSampleInEveryRun) {
  make_dataset(40);
  break_body_of_sample(png_key(0));
  NodeOptions replacing = options(2);
  replacing.bad_samples.policy = BadSamplePolicy::kReplace;
  const Delivered first = run(replacing);
  EXPECT_EQ(first.summary.replaced, 1U);
  std::size_t samples = 0;
  for (const auto& [step, ids] : first.batches()) samples += ids.size();
  EXPECT_EQ(samples, 40U);
  EXPECT_EQ(run(replacing).batches(), first.batches());
}

TEST_F(BadInput, EndsTrainingUnderThePolicyFail) {
  make_dataset(40);
  break_body_of_sample(png_key(0));
  NodeOptions failing = options(1);
  failing.bad_samples.policy = BadSamplePolicy::kFail;
  std::string told;
  const auto outcome = try_run(failing, {}, &told);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(outcome.error().message().find(png_key(0)), std::string::npos);
  EXPECT_NE(told.find(png_key(0)), std::string::npos) << "the trainer was told: " << told;
}

TEST_F(BadInput, EndsTrainingBeyondTheLimit) {
  make_dataset(40);
  break_body_of_sample(png_key(0));
  break_body_of_sample(png_key(1));
  NodeOptions limited = options(1);
  limited.bad_samples.max = "1";
  std::string told;
  EXPECT_EQ(try_run(limited, {}, &told).error().code(), ErrorCode::kCorrupt);
  limited.bad_samples.max = "5%";
  EXPECT_TRUE(try_run(limited, {}).has_value());
  limited.bad_samples.max = "many";
  EXPECT_EQ(try_run(limited, {}).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(BadInput, SamplesBeyondTheMemoryBudgetAreListed) {
  make_dataset(20);
  NodeOptions starved = options(1);
  starved.decode.memory = 3 * kMiB;
  const Delivered run_result = run(starved);
  EXPECT_GT(run_result.summary.bad, 0U);
  EXPECT_EQ(run_result.summary.bad + run_result.counts(0).size(), 20U);
  EXPECT_NE(bad_list().front().at("reason").get<std::string>().find("raise memory"),
            std::string::npos);
}

TEST_F(BadInput, ADirectoryWithoutShardsOrUsableSamplesIsRefused) {
  NodeOptions nowhere = options(1);
  nowhere.data = scratch() / "nowhere";
  EXPECT_EQ(try_run(nowhere, {}).error().code(), ErrorCode::kNotFound);
  std::filesystem::create_directories(shards());
  EXPECT_EQ(try_run(options(1), {}).error().code(), ErrorCode::kNotFound);
  std::ofstream(shards() / "junk.tar") << "this is no tar";
  const auto lost = try_run(options(1), {});
  ASSERT_FALSE(lost.has_value());
  EXPECT_NE(lost.error().message().find("1 of 1 shard is damaged or lost"), std::string::npos);
  NodeOptions allowing = options(1);
  allowing.shards.allow_broken = "100%";
  const auto outcome = try_run(allowing, {});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().message().find("isocost check"), std::string::npos);
}

TEST_F(BadInput, ABadProfileNamesItsField) {
  make_dataset(16);
  NodeOptions profiled = options(1);
  profiled.cost_model.profile_file = scratch() / "profile.json";
  std::ofstream(profiled.cost_model.profile_file)
      << R"({"version": 1, "unit": "seconds", "modules": {}})";
  const auto outcome = try_run(profiled, {});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().message().find("vision"), std::string::npos)
      << outcome.error().message();
}

}  // namespace
}  // namespace isocost
