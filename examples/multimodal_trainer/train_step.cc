#include "examples/multimodal_trainer/train_step.h"

#include "trainer_adapter/own_work.h"

namespace isocost {
namespace {

/// Returns the same values as the start of a new graph, so that their gradient stops here.
torch::Tensor cut(const torch::Tensor& tokens) {
  return tokens.defined() ? tokens.detach().requires_grad_() : torch::Tensor();
}

}  // namespace

MicrobatchResult train_microbatch(MultimodalModel& model, const TorchMicrobatch& microbatch) {
  MicrobatchResult result;
  OwnWork work;
  torch::Tensor vision;
  torch::Tensor audio;
  if (microbatch.contains("vision_patches")) {
    vision = model->vision->forward(microbatch);
    work.add(CostModule::kVision);
  }
  if (microbatch.contains("audio_mel")) {
    audio = model->audio->forward(microbatch);
    work.add(CostModule::kAudio);
  }

  const torch::Tensor vision_input = cut(vision);
  const torch::Tensor audio_input = cut(audio);
  const torch::Tensor loss =
      token_loss(model->llm->forward(microbatch, vision_input, audio_input), microbatch);
  loss.backward();
  result.loss = loss.item<double>();
  work.add(CostModule::kLlm);

  if (vision.defined()) {
    vision.backward(vision_input.grad());
    work.add(CostModule::kVision);
  }
  if (audio.defined()) {
    audio.backward(audio_input.grad());
    work.add(CostModule::kAudio);
  }
  result.seconds = work.seconds();
  return result;
}

}  // namespace isocost
