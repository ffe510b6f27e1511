#include "examples/multimodal_trainer/model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "decode/recipe.h"

namespace isocost {
namespace {

using torch::Tensor;
namespace nn = torch::nn;

constexpr std::int64_t kPatchValues = std::int64_t{14} * 14 * 3;
constexpr std::int64_t kMelBins = 128;

/// [rows] positions -> [rows, width] sines and cosines (Vaswani et al. 2017).
Tensor encode_position(const Tensor& position, std::int64_t width, torch::Dtype dtype) {
  const Tensor rates = torch::exp(torch::arange(width / 2, torch::kDouble) *
                                  (-2.0 * std::log(10000.0) / static_cast<double>(width)));
  const Tensor angle = position.to(torch::kDouble).unsqueeze(1) * rates;
  return torch::cat({angle.sin(), angle.cos()}, 1).to(dtype);
}

/// [rows] position of each row within its sequence.
Tensor position_in_sequence(const Tensor& cu_seqlens, const Tensor& lengths) {
  const Tensor starts = cu_seqlens.slice(0, 0, -1).to(torch::kLong);
  return torch::arange(lengths.sum().item<std::int64_t>(), torch::kLong) -
         starts.repeat_interleave(lengths.to(torch::kLong));
}

/// Row and column of each patch in its image, half of the width each. Patches come in 2x2 groups,
/// groups row by row.
Tensor encode_grid(const TorchMicrobatch& microbatch, std::int64_t width, torch::Dtype dtype) {
  const Tensor lengths = microbatch["vision_lengths"];
  const Tensor patch = position_in_sequence(microbatch["vision_cu_seqlens"], lengths);
  const Tensor groups_across = microbatch["vision_grids"]
                                   .select(1, 1)
                                   .to(torch::kLong)
                                   .div(2, "floor")
                                   .repeat_interleave(lengths.to(torch::kLong));
  const Tensor group = patch.div(4, "floor");
  const Tensor row = group.div(groups_across, "floor") * 2 + patch.remainder(4).div(2, "floor");
  const Tensor column = group.remainder(groups_across) * 2 + patch.remainder(2);
  return torch::cat(
      {encode_position(row, width / 2, dtype), encode_position(column, width / 2, dtype)}, 1);
}

}  // namespace

std::vector<Run> runs_of(const Tensor& lengths) {
  std::vector<Run> runs;
  const auto values = lengths.accessor<std::int32_t, 1>();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (runs.empty() || runs.back().length != values[i]) runs.push_back({values[i], 0});
    ++runs.back().count;
  }
  return runs;
}

TransformerImpl::TransformerImpl(std::int64_t width, std::int64_t depth, std::int64_t head_width,
                                 bool causal)
    : heads_(std::max<std::int64_t>(1, width / head_width)), causal_(causal) {
  for (std::int64_t i = 0; i < depth; ++i) {
    blocks_->push_back(nn::ModuleList(nn::LayerNorm(nn::LayerNormOptions({width})),
                                      nn::Linear(width, 3 * width), nn::Linear(width, width),
                                      nn::LayerNorm(nn::LayerNormOptions({width})),
                                      nn::Linear(width, 4 * width), nn::Linear(4 * width, width)));
  }
  register_module("blocks", blocks_);
  last_norm_ = register_module("last_norm", nn::LayerNorm(nn::LayerNormOptions({width})));
}

Tensor TransformerImpl::forward(Tensor rows, const std::vector<Run>& runs) {
  return finish(run_layers(std::move(rows), runs, 0, layers()));
}

Tensor TransformerImpl::run_layers(Tensor rows, const std::vector<Run>& runs, std::size_t first,
                                   std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    const auto& block = *blocks_[i]->as<nn::ModuleListImpl>();
    const Tensor qkv =
        block[1]->as<nn::Linear>()->forward(block[0]->as<nn::LayerNorm>()->forward(rows));
    rows = rows + block[2]->as<nn::Linear>()->forward(attend(qkv, runs));
    const Tensor wide =
        block[4]->as<nn::Linear>()->forward(block[3]->as<nn::LayerNorm>()->forward(rows));
    rows = rows + block[5]->as<nn::Linear>()->forward(torch::gelu(wide));
  }
  return rows;
}

Tensor TransformerImpl::finish(const Tensor& rows) { return last_norm_->forward(rows); }

Tensor TransformerImpl::attend(const Tensor& qkv, const std::vector<Run>& runs) const {
  const std::int64_t width = qkv.size(1) / 3;
  const double scale = 1.0 / std::sqrt(static_cast<double>(width) / static_cast<double>(heads_));
  std::vector<std::int64_t> rows;
  for (const Run& run : runs) rows.push_back(run.length * run.count);
  // A single split has one concatenation as its gradient; the gradient of each slice would be as
  // large as all rows.
  const std::vector<Tensor> inputs = qkv.split_with_sizes(rows);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    // [3, sequences * heads, length, width of a head]
    const Tensor parts = inputs[i]
                             .view({run.count, run.length, 3, heads_, width / heads_})
                             .permute({2, 0, 3, 1, 4})
                             .reshape({3, run.count * heads_, run.length, width / heads_});
    Tensor scores = torch::bmm(parts[0] * scale, parts[1].transpose(1, 2));
    if (causal_) {
      scores = scores + torch::full({run.length, run.length},
                                    -std::numeric_limits<double>::infinity(), qkv.options())
                            .triu(1);
    }
    outputs.push_back(torch::bmm(torch::softmax(scores, -1), parts[2])
                          .view({run.count, heads_, run.length, width / heads_})
                          .permute({0, 2, 1, 3})
                          .reshape({rows[i], width}));
  }
  return torch::cat(outputs);
}

VisionEncoderImpl::VisionEncoderImpl(const ModelOptions& options) {
  const std::int64_t width = options.vision_width;
  patch_ = register_module("patch", nn::Linear(kPatchValues, width));
  transformer_ = register_module(
      "transformer", Transformer(width, options.vision_depth, options.head_width, false));
  merge_ = register_module("merge", nn::Linear(4 * width, options.llm_width));
}

Tensor VisionEncoderImpl::forward(const TorchMicrobatch& microbatch) {
  const auto dtype = patch_->weight.scalar_type();
  const Tensor pixels = microbatch["vision_patches"].to(dtype).div(127.5).sub(1);
  const std::int64_t width = patch_->options.out_features();
  const Tensor rows = patch_->forward(pixels) + encode_grid(microbatch, width, dtype);
  const Tensor encoded = transformer_->forward(rows, runs_of(microbatch["vision_lengths"]));
  return merge_->forward(encoded.view({-1, 4 * width}));
}

AudioEncoderImpl::AudioEncoderImpl(const ModelOptions& options) {
  const std::int64_t width = options.audio_width;
  // The kernel is as wide as the stride, so that no output mixes two windows.
  conv_ = register_module("conv", nn::Conv1d(nn::Conv1dOptions(kMelBins, width, 2).stride(2)));
  transformer_ = register_module(
      "transformer", Transformer(width, options.audio_depth, options.head_width, false));
  merge_ = register_module("merge", nn::Linear(2 * width, options.llm_width));
}

Tensor AudioEncoderImpl::forward(const TorchMicrobatch& microbatch) {
  const auto dtype = conv_->weight.scalar_type();
  const std::int64_t width = conv_->options.out_channels();
  const Tensor mel = microbatch["audio_mel"].to(dtype);
  const Tensor halved = torch::gelu(conv_->forward(mel.t().unsqueeze(0)).squeeze(0).t());
  const Tensor lengths = microbatch["audio_lengths"].div(2, "floor");
  const Tensor cu_seqlens = microbatch["audio_cu_seqlens"].div(2, "floor");
  const Tensor rows =
      halved + encode_position(position_in_sequence(cu_seqlens, lengths), width, dtype);
  return merge_->forward(transformer_->forward(rows, runs_of(lengths)).view({-1, 2 * width}));
}

LanguageModelImpl::LanguageModelImpl(const ModelOptions& options) {
  const std::int64_t width = options.llm_width;
  embedding_ = register_module("embedding", nn::Embedding(kVocabulary, width));
  transformer_ = register_module("transformer",
                                 Transformer(width, options.llm_depth, options.head_width, true));
  head_ = register_module("head", nn::Linear(width, kVocabulary));
}

Tensor LanguageModelImpl::forward(const TorchMicrobatch& microbatch, const Tensor& vision,
                                  const Tensor& audio) {
  return predict(run_layers(embed(microbatch, vision, audio), microbatch, 0, layers()));
}

Tensor LanguageModelImpl::embed(const TorchMicrobatch& microbatch, const Tensor& vision,
                                const Tensor& audio) {
  const Tensor ids = microbatch["input_ids"];
  Tensor rows = embedding_->forward(ids);
  if (vision.defined()) rows = rows.index_copy(0, (ids == kTokenVision).nonzero().view(-1), vision);
  if (audio.defined()) rows = rows.index_copy(0, (ids == kTokenAudio).nonzero().view(-1), audio);
  return rows + encode_position(microbatch["position_ids"], rows.size(1), rows.scalar_type());
}

Tensor LanguageModelImpl::run_layers(const Tensor& rows, const TorchMicrobatch& microbatch,
                                     std::size_t first, std::size_t end) {
  return transformer_->run_layers(rows, runs_of(microbatch["lengths"]), first, end);
}

Tensor LanguageModelImpl::predict(const Tensor& rows) {
  return head_->forward(transformer_->finish(rows));
}

MultimodalModelImpl::MultimodalModelImpl(const ModelOptions& options) {
  vision = register_module("vision", VisionEncoder(options));
  audio = register_module("audio", AudioEncoder(options));
  llm = register_module("llm", LanguageModel(options));
}

}  // namespace isocost
