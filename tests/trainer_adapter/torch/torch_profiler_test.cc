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
  return {
      .prepare = [layer, room](std::span<const std::int64_t> lengths) -> ProfiledModule::Forward {
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
  EXPECT_EQ(lines.size(), profile->points.size());
  for (const ProfilePoint& point : profile->points) {
    EXPECT_GT(point.forward_s, 0);
    EXPECT_GT(point.backward_s, 0);
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
}

}  // namespace
}  // namespace isocost
