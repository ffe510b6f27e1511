#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer_adapter/torch/torch_loader.h"

namespace isocost {

/// Sizes of the three modules. The defaults are small enough for one core; examples/README.md lists
/// the seconds of typical samples.
struct ModelOptions {
  std::int64_t vision_width = 96;
  std::int64_t vision_depth = 2;
  std::int64_t audio_width = 128;
  std::int64_t audio_depth = 2;
  std::int64_t llm_width = 192;
  std::int64_t llm_depth = 2;
  std::int64_t head_width = 64;  ///< A module narrower than this has one head.
};

/// Consecutive sequences of equal length in the rows of a tensor (the frames of a video, say),
/// which are computed in one batch.
struct Run {
  std::int64_t length = 0;
  std::int64_t count = 0;
};
/// Returns the runs of a `<module>.lengths` tensor (int32).
std::vector<Run> runs_of(const torch::Tensor& lengths);

/// Pre-norm transformer over packed sequences: attention stays within each sequence.
class TransformerImpl : public torch::nn::Module {
 public:
  TransformerImpl(std::int64_t width, std::int64_t depth, std::int64_t head_width, bool causal);
  /// [rows, width] -> [rows, width]. The runs must cover all rows.
  torch::Tensor forward(torch::Tensor rows, const std::vector<Run>& runs);
  /// The parts of `forward`: layers `first` to `end` - 1, and the norm after the last layer.
  torch::Tensor run_layers(torch::Tensor rows, const std::vector<Run>& runs, std::size_t first,
                           std::size_t end);
  torch::Tensor finish(const torch::Tensor& rows);
  std::size_t layers() const { return blocks_->size(); }

 private:
  torch::Tensor attend(const torch::Tensor& qkv, const std::vector<Run>& runs) const;

  std::int64_t heads_;
  bool causal_;
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm last_norm_{nullptr};
};
TORCH_MODULE(Transformer);

/// 14-pixel patches -> one LLM token for each 2x2 of them.
class VisionEncoderImpl : public torch::nn::Module {
 public:
  explicit VisionEncoderImpl(const ModelOptions& options);
  torch::Tensor forward(const TorchMicrobatch& microbatch);

 private:
  torch::nn::Linear patch_{nullptr}, merge_{nullptr};
  Transformer transformer_{nullptr};
};
TORCH_MODULE(VisionEncoder);

/// Log-mel frames -> 50 positions a second -> one LLM token for each two of them.
class AudioEncoderImpl : public torch::nn::Module {
 public:
  explicit AudioEncoderImpl(const ModelOptions& options);
  torch::Tensor forward(const TorchMicrobatch& microbatch);

 private:
  torch::nn::Conv1d conv_{nullptr};
  torch::nn::Linear merge_{nullptr};
  Transformer transformer_{nullptr};
};
TORCH_MODULE(AudioEncoder);

/// Causal language model over packed samples. Encoder tokens replace the ids that represent them.
class LanguageModelImpl : public torch::nn::Module {
 public:
  explicit LanguageModelImpl(const ModelOptions& options);
  /// Returns logits [tokens, kVocabulary]. `vision` and `audio` are undefined if there are none.
  torch::Tensor forward(const TorchMicrobatch& microbatch, const torch::Tensor& vision,
                        const torch::Tensor& audio);
  /// `embed`, `run_layers` and `predict` are the parts of `forward`, for the stages of a pipeline.
  /// This one returns rows [tokens, width] made of ids, positions and the encoders' outputs.
  torch::Tensor embed(const TorchMicrobatch& microbatch, const torch::Tensor& vision,
                      const torch::Tensor& audio);
  /// Runs layers `first` to `end` - 1, which read `llm.lengths` of the microbatch.
  torch::Tensor run_layers(const torch::Tensor& rows, const TorchMicrobatch& microbatch,
                           std::size_t first, std::size_t end);
  /// Returns logits from the rows of the last layer.
  torch::Tensor predict(const torch::Tensor& rows);
  std::size_t layers() const { return transformer_->layers(); }

 private:
  torch::nn::Embedding embedding_{nullptr};
  Transformer transformer_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(LanguageModel);

struct MultimodalModelImpl : torch::nn::Module {
  explicit MultimodalModelImpl(const ModelOptions& options);
  VisionEncoder vision{nullptr};
  AudioEncoder audio{nullptr};
  LanguageModel llm{nullptr};
};
TORCH_MODULE(MultimodalModel);

}  // namespace isocost
