#include "examples/multimodal_trainer/train_step.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace isocost {
namespace {

/// Adds the time since the last call to a module's seconds.
class Stopwatch {
 public:
  explicit Stopwatch(std::array<double, kModules>& seconds) : seconds_(seconds) {}

  void charge(Module module) {
    const auto now = std::chrono::steady_clock::now();
    double& total = seconds_.at(static_cast<std::size_t>(module));
    total = std::max(total, 0.0) + std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  std::array<double, kModules>& seconds_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Returns the same values as the start of a new graph, so that their gradient stops here.
torch::Tensor cut(const torch::Tensor& tokens) {
  return tokens.defined() ? tokens.detach().requires_grad_() : torch::Tensor();
}

}  // namespace

MicrobatchResult train_microbatch(MultimodalModel& model, const TorchMicrobatch& microbatch) {
  MicrobatchResult result;
  Stopwatch watch(result.seconds);
  torch::Tensor vision;
  torch::Tensor audio;
  if (microbatch.find("vision.patches").defined()) {
    vision = model->vision->forward(microbatch);
    watch.charge(Module::kVision);
  }
  if (microbatch.find("audio.mel").defined()) {
    audio = model->audio->forward(microbatch);
    watch.charge(Module::kAudio);
  }

  const torch::Tensor vision_input = cut(vision);
  const torch::Tensor audio_input = cut(audio);
  const torch::Tensor loss =
      token_loss(model->llm->forward(microbatch, vision_input, audio_input), microbatch);
  loss.backward();
  result.loss = loss.item<double>();
  watch.charge(Module::kLlm);

  if (vision.defined()) {
    vision.backward(vision_input.grad());
    watch.charge(Module::kVision);
  }
  if (audio.defined()) {
    audio.backward(audio_input.grad());
    watch.charge(Module::kAudio);
  }
  return result;
}

}  // namespace isocost
