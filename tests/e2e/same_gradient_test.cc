// Gradients do not depend on the plan. Tested through the whole loop (shards, node, wire, clients,
// model), in float64.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/mutex.h"
#include "examples/multimodal_trainer/train_step.h"
#include "tests/e2e/loop_fixture.h"

namespace isocost {
namespace {

constexpr double kTolerance = 1e-9;

using Gradients = std::map<std::uint32_t, torch::Tensor>;  // by step

MultimodalModel small_model() {
  torch::manual_seed(11);
  ModelOptions options;
  options.vision_width = 32;
  options.audio_width = 24;
  options.llm_width = 64;
  options.head_width = 16;
  MultimodalModel model(options);
  model->to(torch::kDouble);
  return model;
}

torch::Tensor gradient(const std::vector<TorchMicrobatch>& microbatches) {
  MultimodalModel model = small_model();
  for (const TorchMicrobatch& microbatch : microbatches) train_microbatch(model, microbatch);
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : model->parameters()) {
    gradients.push_back(
        (parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter)).view(-1));
  }
  return torch::cat(gradients);
}

class SameGradientLoop : public LoopTest {
 protected:
  // Returns each step's gradients, summed over ranks and microbatches.
  Gradients gradients(const NodeOptions& options) {
    Mutex mutex;
    std::map<std::uint32_t, std::vector<TorchMicrobatch>> steps;
    run(options, [&](std::int64_t, Client&, const Microbatch& microbatch) {
      const MutexLock lock(mutex);
      steps[microbatch.header.position.step].push_back(to_torch(microbatch));
    });
    Gradients sums;
    for (const auto& [step, microbatches] : steps) sums[step] = gradient(microbatches);
    return sums;
  }
};

TEST_F(SameGradientLoop, UnderEveryPolicyIsThatOfOneBatch) {
  make_dataset(21);  // 16 and a tail of 5: with 8 ranks, three repeats of no weight
  NodeOptions whole = options(1);
  whole.plan.microbatches = 1;
  const Gradients expected = gradients(whole);
  ASSERT_EQ(expected.size(), 2U);
  for (const std::int64_t ranks : {1, 2, 8}) {
    for (const BalancePolicy policy :
         {BalancePolicy::kInOrder, BalancePolicy::kTokens, BalancePolicy::kCost}) {
      NodeOptions cut = options(ranks);
      cut.plan.balance = policy;
      const Gradients sums = gradients(cut);
      ASSERT_EQ(sums.size(), expected.size());
      for (const auto& [step, sum] : sums) {
        const torch::Tensor& single = expected.at(step);
        ASSERT_GT(single.norm().item<double>(), 1e-3);
        const double error = ((sum - single).norm() / single.norm()).item<double>();
        EXPECT_LE(error, kTolerance) << ranks << " ranks, step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace isocost
