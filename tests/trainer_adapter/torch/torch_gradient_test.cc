// The sum of gradients over microbatches equals the gradient of the whole global batch, for any
// partition into microbatches. Tested in float64 with the example's model.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "base/random.h"
#include "examples/multimodal_trainer/train_step.h"
#include "tests/trainer_adapter/torch/hand_made.h"

namespace isocost {
namespace {

using Partition = std::vector<std::vector<HandMadeSample>>;

constexpr double kTolerance = 1e-9;

MultimodalModel small_model() {
  torch::manual_seed(11);
  ModelOptions options;
  options.vision_width = 32;
  options.audio_width = 24;
  options.llm_width = 64;
  options.llm_depth = 2;
  options.head_width = 16;
  MultimodalModel model(options);
  model->to(torch::kDouble);
  return model;
}

/// Samples of only text, of one or several images (equal and unequal), of a video's frames, of
/// audio, and of everything together.
std::vector<HandMadeSample> global_batch_size() {
  Random random(23);
  std::vector<HandMadeSample> samples;
  samples.push_back(make_sample(0, {}, {}, 40, random));
  samples.push_back(make_sample(1, {{4, 6}}, {}, 12, random));
  samples.push_back(make_sample(2, {{2, 2}, {6, 4}, {2, 8}}, {}, 7, random));
  samples.push_back(make_sample(3, {{4, 4}, {4, 4}, {4, 4}, {4, 4}}, {}, 5, random));
  samples.push_back(make_sample(4, {}, {48, 20}, 9, random));
  samples.push_back(make_sample(5, {{4, 4}}, {20}, 21, random));
  samples.push_back(make_sample(6, {}, {}, 1, random));
  samples.push_back(make_sample(7, {{8, 2}}, {4}, 0, random));
  samples.push_back(make_sample(8, {}, {20}, 33, random));
  return samples;
}

std::uint64_t label_tokens(const std::vector<HandMadeSample>& samples) {
  std::uint64_t count = 0;
  for (const HandMadeSample& sample : samples) count += sample.label_tokens();
  return count;
}

/// Returns all gradients in one vector, summed over the parts.
torch::Tensor gradient(const Partition& parts, std::uint64_t global_label_tokens) {
  MultimodalModel model = small_model();
  BufferPool pool;
  for (const std::vector<HandMadeSample>& part : parts) {
    train_microbatch(model, to_torch(assemble(part, global_label_tokens, pool)));
  }
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : model->parameters()) {
    gradients.push_back(
        (parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter)).view(-1));
  }
  return torch::cat(gradients);
}

double relative_error(const torch::Tensor& value, const torch::Tensor& expected) {
  return (value - expected).norm().item<double>() / expected.norm().item<double>();
}

Partition random_partition(std::vector<HandMadeSample> samples, Random& random) {
  shuffle(std::span<HandMadeSample>(samples), random);
  std::map<std::uint64_t, std::vector<HandMadeSample>> bins;
  const std::uint64_t count = 2 + random.below(samples.size() - 1);
  for (HandMadeSample& sample : samples) bins[random.below(count)].push_back(std::move(sample));
  Partition parts;
  for (auto& [bin, part] : bins) parts.push_back(std::move(part));
  return parts;
}

TEST(SameGradient, AnyPartitionSumsToTheSingleBatch) {
  const std::vector<HandMadeSample> samples = global_batch_size();
  const std::uint64_t tokens = label_tokens(samples);
  const torch::Tensor single = gradient({samples}, tokens);
  ASSERT_GT(single.norm().item<double>(), 1e-3);
  Random random(1);
  for (int trial = 0; trial < 12; ++trial) {
    const Partition parts = random_partition(samples, random);
    EXPECT_LE(relative_error(gradient(parts, tokens), single), kTolerance)
        << "trial " << trial << ", " << parts.size() << " microbatches";
  }
}

TEST(SameGradient, OneSampleAMicrobatch) {
  const std::vector<HandMadeSample> samples = global_batch_size();
  Partition parts;
  for (const HandMadeSample& sample : samples) parts.push_back({sample});
  const std::uint64_t tokens = label_tokens(samples);
  EXPECT_LE(relative_error(gradient(parts, tokens), gradient({samples}, tokens)), kTolerance);
}

TEST(SameGradient, ZeroWeightRepeatsChangeNothing) {
  const std::vector<HandMadeSample> samples = global_batch_size();
  HandMadeSample repeat = samples[5];
  repeat.weight = 0;
  const std::uint64_t tokens = label_tokens(samples);
  EXPECT_LE(relative_error(gradient({samples, {repeat}}, tokens), gradient({samples}, tokens)),
            kTolerance);
}

TEST(SameGradient, AnErrorOfOnePartInAMillionWouldShow) {
  std::vector<HandMadeSample> samples = global_batch_size();
  const std::uint64_t tokens = label_tokens(samples);
  const torch::Tensor single = gradient({samples}, tokens);
  for (HandMadeSample& sample : samples) sample.weight *= 1.000001F;
  EXPECT_GT(relative_error(gradient({samples}, tokens), single), kTolerance);
}

/// A sample's gradient must not depend on the contents of its neighbours.
TEST(SameGradient, SamplesDoNotSeeTheirNeighbours) {
  const std::vector<HandMadeSample> samples = global_batch_size();
  Random random(77);
  std::vector<HandMadeSample> others;
  for (const HandMadeSample& sample : samples) {
    HandMadeSample other = make_sample(sample.id, sample.images, sample.audio_frames, 15, random);
    other.weight = 0;
    others.push_back(std::move(other));
  }
  std::vector<HandMadeSample> crowd = {others[5], others[2], samples[5], others[4], others[1]};
  EXPECT_LE(relative_error(gradient({crowd}, 10), gradient({{samples[5]}}, 10)), kTolerance);
}

/// Rows and columns have different positions: the outputs of an image and of its transpose differ.
TEST(Model, SeesWhereAPatchIs) {
  Random random(4);
  HandMadeSample wide = make_sample(0, {{2, 8}}, {}, 4, random);
  HandMadeSample tall = wide;
  tall.images = {{8, 2}};
  EXPECT_GT(relative_error(gradient({{tall}}, 5), gradient({{wide}}, 5)), 1e-3);
}

TEST(Model, MeasuresTheModulesThatHaveWork) {
  MultimodalModel model = small_model();
  BufferPool pool;
  Random random(4);
  const HandMadeSample text = make_sample(0, {}, {}, 4, random);
  const MicrobatchResult result =
      train_microbatch(model, to_torch(assemble({&text, 1}, text.label_tokens(), pool)));
  EXPECT_LT(result.seconds[static_cast<std::size_t>(CostModule::kVision)], 0);
  EXPECT_LT(result.seconds[static_cast<std::size_t>(CostModule::kAudio)], 0);
  EXPECT_GT(result.seconds[static_cast<std::size_t>(CostModule::kLlm)], 0);
  // The untrained model guesses among the vocabulary's tokens.
  EXPECT_NEAR(result.loss / text.weight, std::log(static_cast<double>(kVocabulary)), 1.5);
}

}  // namespace
}  // namespace isocost
