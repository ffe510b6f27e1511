// The profiler on a module of known form, and where memory ends.

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>
#include <string>
#include <vector>

#include "trainer_adapter/torch/profiler.h"

namespace isocost {
namespace {

using testing::HasSubstr;

// A linear layer; more than `room` rows are refused as an allocator would.
ProfiledModule linear(torch::nn::Linear layer, std::int64_t room) {
  return {.prepare = [layer, room](std::span<const std::int64_t> lengths) -> ProfiledForward {
            const auto rows = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
            TORCH_CHECK(rows <= room, "DefaultCPUAllocator: can't allocate memory");
            const torch::Tensor input = torch::randn({rows, 32});
            return [layer, input]() mutable { return layer->forward(input); };
          },
          .shortest = 16,
          .longest = 1024,
          .most_units = 4096,
          .multiple = 4};
}

TEST(TorchProfiler, MeasuresForwardAndBackwardOverTheGrid) {
  std::vector<std::string> lines;
  const ProfilerOptions options{
      .budget = std::chrono::duration<double>(0.5),
      .progress = [&lines](const std::string& line) { lines.push_back(line); }};
  const auto profile = profile_module("llm", linear(torch::nn::Linear(32, 32), 1 << 20), options);
  ASSERT_TRUE(profile) << profile.error().to_string();
  EXPECT_GE(profile->points.size(), 10U);
  EXPECT_GE(lines.size(), profile->points.size());  // more where a disturbed one is measured again
  for (const ProfilePoint& point : profile->points) {
    EXPECT_GT(point.forward_s, 0);
    EXPECT_GT(point.backward_s, 0);
    const std::int64_t outputs = 4 * 32 * point.load.units;  // and their gradient, at least
    EXPECT_GE(point.peak_bytes, 2 * outputs);
    EXPECT_LT(point.peak_bytes, 8 * outputs + 65'536);
    EXPECT_LE(point.load.units, 4096);
    EXPECT_EQ(point.load.units / point.load.sequences % 4, 0);
  }
  EXPECT_EQ(profile->out_of_memory, ModuleLoad{});
  EXPECT_FALSE(profile->coefficients == ModuleCoefficients{});
}

TEST(TorchProfiler, RecordsWhereMemoryEnds) {
  const auto profile = profile_module("llm", linear(torch::nn::Linear(32, 32), 2000),
                                      {.budget = std::chrono::duration<double>(0.1)});
  ASSERT_TRUE(profile) << profile.error().to_string();
  EXPECT_GT(profile->out_of_memory.units, 2000);
  for (const ProfilePoint& point : profile->points) EXPECT_LE(point.load.units, 2000);
}

TEST(TorchProfiler, MeasuresCutsAtTheLargestLoads) {
  ProfiledModule module = linear(torch::nn::Linear(32, 32), 1 << 20);
  module.architecture = Architecture{.name = "an LLM", .layers = 8, .width = 32};
  module.cuts = {{.prepare = linear(torch::nn::Linear(32, 16), 1 << 20).prepare, .tensor = 2},
                 {.prepare = linear(torch::nn::Linear(32, 8), 2000).prepare, .layers = 4}};
  const auto profile =
      profile_module("llm", module, {.budget = std::chrono::duration<double>(0.3)});
  ASSERT_TRUE(profile) << profile.error().to_string();
  ASSERT_EQ(profile->cuts.size(), 2U);
  EXPECT_EQ(profile->cuts[0].tensor, 2);
  EXPECT_GE(profile->cuts[0].points.size(), 3U);
  for (const ProfilePoint& point : profile->cuts[0].points) EXPECT_GT(point.load.units, 2048);
  EXPECT_EQ(profile->cuts[1].layers, 4);
  EXPECT_TRUE(profile->cuts[1].points.empty());  // no room for any of them
}

// A process that receives the first one's values measures the first one's profile.
TEST(TorchProfiler, ProcessesThatAgreeDecideAlike) {
  std::vector<double> said;
  ProfilerOptions options{.budget = std::chrono::duration<double>(0.2)};
  options.agree = [&said](double value) {
    said.push_back(value);
    return value;
  };
  ProfiledModule module = linear(torch::nn::Linear(32, 32), 1 << 20);
  module.cuts = {{.prepare = module.prepare, .tensor = 2}};
  const auto first = profile_module("llm", module, options);
  std::size_t heard = 0;
  options.agree = [&](double) { return said.at(heard++); };
  const auto second = profile_module("llm", module, options);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(heard, said.size());
  ASSERT_EQ(second->points.size(), first->points.size());
  for (std::size_t i = 0; i < first->points.size(); ++i) {
    EXPECT_EQ(second->points[i].load, first->points[i].load);
    EXPECT_EQ(second->points[i].seconds(), first->points[i].seconds());
  }
}

TEST(TorchProfiler, RefusesWhatCannotBe) {
  const ProfilerOptions options{.budget = std::chrono::duration<double>(0.1)};
  const auto full = profile_module("llm", linear(torch::nn::Linear(32, 32), 8), options);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.error().message(), HasSubstr("1 x 16"));
  ProfiledModule module = linear(torch::nn::Linear(32, 32), 1 << 20);
  module.longest = 8;
  const auto refused = profile_module("llm", module, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  module = linear(torch::nn::Linear(32, 32), 1 << 20);
  module.cuts = {{.prepare = module.prepare, .layers = 4}};  // of an unknown number
  const auto uncut = profile_module("llm", module, options);
  ASSERT_FALSE(uncut);
  EXPECT_THAT(uncut.error().message(), HasSubstr("architecture"));
}

}  // namespace
}  // namespace isocost
