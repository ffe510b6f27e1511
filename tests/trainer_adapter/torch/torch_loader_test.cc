#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "decode/recipe.h"
#include "tests/trainer_adapter/torch/hand_made.h"
#include "trainer_adapter/torch/torch_loader.h"

namespace isocost {
namespace {

std::vector<HandMadeSample> two_samples() {
  Random random(5);
  std::vector<HandMadeSample> samples;
  samples.push_back(make_sample(7, {{2, 4}, {4, 2}}, {8}, 5, random));
  samples.push_back(make_sample(9, {}, {}, 3, random));
  samples[0].weight = 0.5F;
  samples[1].weight = 2.0F;
  return samples;
}

TEST(TorchLoader, TensorsViewTheBytesOfThePool) {
  BufferPool pool;
  const Microbatch microbatch = assemble(two_samples(), 13, pool);
  const TorchMicrobatch torch = to_torch(microbatch);
  ASSERT_EQ(torch.tensors.size(), microbatch.tensors.size());
  for (const NamedTensor& named : microbatch.tensors) {
    const at::Tensor tensor = torch[argument_name(named.name)];
    EXPECT_EQ(tensor.data_ptr(), named.tensor.data) << named.name;
    EXPECT_TRUE(pool.owns(tensor.data_ptr())) << named.name;
    EXPECT_EQ(tensor.sizes().vec(), named.tensor.shape) << named.name;
    EXPECT_TRUE(tensor.is_contiguous());
  }
  EXPECT_EQ(torch["vision_patches"].scalar_type(), at::kByte);
  EXPECT_EQ(torch["vision_grids"].scalar_type(), at::kInt);
  EXPECT_EQ(torch["audio_mel"].scalar_type(), at::kFloat);
  EXPECT_EQ(torch["labels"].scalar_type(), at::kLong);
  EXPECT_THROW((void)torch.contains("nothing"), Exception);
}

// The client gets every option that the loader has.
TEST(TorchLoader, OptionsReachTheClient) {
  const LoaderOptions options{.endpoint = "tcp://node:1",
                              .rank = 2,
                              .world_size = 3,
                              .layout = 4,
                              .prefetch = 5,
                              .start = StartPoint{6, 7, 8, "nine"},
                              .accept_other_data = true,
                              .hardware = "device",
                              .connect_timeout = std::chrono::milliseconds(10),
                              .log = nullptr,
                              .curve_server_key_file = "server",
                              .curve_secret_key_file = "secret",
                              .max_microbatch_bytes = 11};
  const ClientOptions client = options.client();
  EXPECT_EQ(client.endpoint, options.endpoint);
  EXPECT_EQ(client.rank, 2);
  EXPECT_EQ(client.world_size, 3);
  EXPECT_EQ(client.layout, 4U);
  EXPECT_EQ(client.prefetch, 5U);
  EXPECT_FALSE(client.prepares_ahead);
  EXPECT_EQ(client.start, options.start);
  EXPECT_TRUE(client.accept_other_data);
  EXPECT_EQ(client.hardware, "device");
  EXPECT_EQ(client.connect_timeout.count(), 10);
  EXPECT_FALSE(client.log);
  EXPECT_EQ(client.curve_server_key_file, "server");
  EXPECT_EQ(client.curve_secret_key_file, "secret");
  EXPECT_EQ(client.max_microbatch_bytes, 11);
  const ClientOptions defaults = LoaderOptions().client();
  EXPECT_EQ(defaults.endpoint, ClientOptions().endpoint);
  EXPECT_EQ(defaults.prefetch, ClientOptions().prefetch);
  EXPECT_EQ(defaults.connect_timeout, ClientOptions().connect_timeout);
  EXPECT_EQ(defaults.max_microbatch_bytes, ClientOptions().max_microbatch_bytes);
}

TEST(TorchLoader, ATensorOutlivesTheMicrobatchAndGivesItsBytesBack) {
  BufferPool pool;
  at::Tensor ids;
  std::vector<std::int64_t> expected;
  {
    const std::vector<HandMadeSample> samples = two_samples();
    const Microbatch microbatch = assemble(samples, 13, pool);
    for (const HandMadeSample& sample : samples) append(expected, sample.input_ids);
    ids = to_torch(microbatch)["input_ids"];
  }
  EXPECT_TRUE(pool.owns(ids.data_ptr()));
  EXPECT_TRUE(ids.equal(at::tensor(expected, at::kLong)));
  ids.reset();
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

TEST(TorchLoader, AnAbsentModalityHasNoTensor) {
  BufferPool pool;
  const std::vector<HandMadeSample> samples = two_samples();
  const TorchMicrobatch torch = to_torch(assemble({&samples[1], 1}, 4, pool));
  EXPECT_FALSE(torch.contains("vision_patches"));
  EXPECT_FALSE(torch.contains("audio_cu_seqlens"));
  EXPECT_TRUE(torch.contains("cu_seqlens"));
}

/// -log softmax(row)[label], computed step by step.
double cross_entropy(const at::Tensor& row, std::int64_t label) {
  double sum = 0;
  for (std::int64_t i = 0; i < row.size(0); ++i) sum += std::exp(row[i].item<double>());
  return std::log(sum) - row[label].item<double>();
}

TEST(TorchLoader, TokenLossIsTheWeightedSumOverTheGlobalCount) {
  BufferPool pool;
  const std::vector<HandMadeSample> samples = two_samples();
  const TorchMicrobatch torch = to_torch(assemble(samples, 40, pool));
  const std::int64_t tokens = torch["labels"].size(0);
  at::manual_seed(3);
  const at::Tensor logits = at::randn({tokens, kVocabulary}, at::kDouble);

  double expected = 0;
  std::int64_t row = 0;
  for (const HandMadeSample& sample : samples) {
    for (const std::int64_t label : sample.labels) {
      if (label != kIgnoredLabel) expected += sample.weight * cross_entropy(logits[row - 1], label);
      ++row;
    }
  }
  EXPECT_NEAR(token_loss(logits, torch).item<double>(), expected / 40, 1e-12 * expected);
}

TEST(TorchLoader, AZeroWeightRepeatCountsForNothing) {
  BufferPool pool;
  std::vector<HandMadeSample> samples = two_samples();
  samples[1].weight = 0;
  const TorchMicrobatch both = to_torch(assemble(samples, 40, pool));
  const TorchMicrobatch first = to_torch(assemble({&samples[0], 1}, 40, pool));
  at::manual_seed(3);
  const at::Tensor logits = at::randn({both["labels"].size(0), kVocabulary});
  const at::Tensor own = logits.narrow(0, 0, first["labels"].size(0));
  EXPECT_FLOAT_EQ(token_loss(logits, both).item<float>(), token_loss(own, first).item<float>());
}

TEST(TorchLoader, AGlobalBatchWithoutLabelsHasNoLoss) {
  BufferPool pool;
  std::vector<HandMadeSample> samples = two_samples();
  for (HandMadeSample& sample : samples) {
    sample.labels.assign(sample.labels.size(), kIgnoredLabel);
  }
  const TorchMicrobatch torch = to_torch(assemble(samples, 0, pool));
  const at::Tensor logits = at::zeros({torch["labels"].size(0), kVocabulary});
  EXPECT_EQ(token_loss(logits, torch).item<float>(), 0.0F);
}

TEST(TorchLoader, LogitsOfAnotherLengthAreRefused) {
  BufferPool pool;
  const TorchMicrobatch torch = to_torch(assemble(two_samples(), 40, pool));
  EXPECT_THROW(token_loss(at::zeros({3, kVocabulary}), torch), c10::Error);
}

}  // namespace
}  // namespace isocost
