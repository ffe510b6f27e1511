#include "decode/prepare/sample_plan.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/tensor_schema.h"
#include "decode/audio/audio.h"
#include "decode/resize/patch_grid.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

/// With four patches a token, sums of squared patches stay below 2^60.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 28;

}  // namespace

Error impossible_part(const PartShape& shape, const char* what) {
  return {ErrorCode::kInvalidArgument,
          std::string(modality_name(shape.modality)) + " part without " + what};
}

Status check_picture(const PartShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const bool possible =
      shape.width > 0 && shape.height > 0 && std::int64_t{shape.width} * shape.height <= kMost;
  if (!possible) return impossible_part(shape, "a possible picture size");
  return {};
}

std::int64_t PartPlan::mel_frames() const {
  return std::accumulate(audio.window_frames.begin(), audio.window_frames.end(), std::int64_t{0});
}

Status SamplePlan::add(PartPlan part) {
  tokens += part.tokens;  // a part has fewer than 2^45, see Native28Options::validate
  if (tokens > kMaxTokens) {
    return Error(ErrorCode::kResourceExhausted,
                 "the sample makes more than " + std::to_string(kMaxTokens) + " tokens");
  }
  rope_times_ += static_cast<double>(part.rope_interval) * static_cast<double>(part.images);
  if (!(rope_times_ < static_cast<double>(kMaxTokens))) {
    return Error(ErrorCode::kResourceExhausted, "the sample's videos are too long");
  }
  images += part.images;
  patch_rows += part.images * part.grid.patches() * part.depth;
  if (part.images > 0) patch_bytes = part.grid.patch_bytes();
  media += part.media;
  windows += static_cast<std::int64_t>(part.audio.window_frames.size());
  mel_frames += part.mel_frames();
  if (!part.audio.window_frames.empty()) mel_bins = part.audio.bins;
  label_tokens += part.label_tokens;
  weighted = weighted || part.weighted;
  parts.push_back(std::move(part));
  return {};
}

std::int64_t SamplePlan::tensor_bytes() const {
  constexpr std::int64_t kInt32 = 4;
  constexpr std::int64_t kInt64 = 8;
  constexpr std::int64_t kFloat = 4;
  const std::int64_t vision = patch_rows * patch_bytes + (images * (2 + 1) + media * 4) * kInt32;
  const std::int64_t audio = mel_frames * mel_bins * kFloat + windows * kInt32;
  const std::int64_t rope_positions = rope ? tokens * 3 * kInt32 : 0;
  const std::int64_t weights = weighted ? tokens * kFloat : 0;
  return vision + audio + tokens * 3 * kInt64 + rope_positions + weights + kInt32;
}

std::vector<TensorPlan> SamplePlan::tensors() const {
  std::vector<TensorPlan> out;
  const auto add = [&](const TensorEntry& entry, std::int64_t rows, std::int64_t width) {
    out.push_back({&entry, entry.shape(rows, width)});
  };
  const auto add_usual = [&](const TensorEntry& entry, std::int64_t rows) {
    add(entry, rows, entry.row_width);
  };
  if (images > 0) {
    add(tensor_entry(CostModule::kVision, TensorRole::kRows), patch_rows, patch_bytes);
    add_usual(tensor_entry(CostModule::kVision, TensorRole::kGrids), images);
    if (media > 0) add_usual(tensor_entry(CostModule::kVision, TensorRole::kMedia), media);
    add_usual(tensor_entry(CostModule::kVision, TensorRole::kLengths), images);
  }
  if (windows > 0) {
    add(tensor_entry(CostModule::kAudio, TensorRole::kRows), mel_frames, mel_bins);
    add_usual(tensor_entry(CostModule::kAudio, TensorRole::kLengths), windows);
  }
  add_usual(tensor_entry(CostModule::kLlm, TensorRole::kIds), tokens);
  add_usual(tensor_entry(CostModule::kLlm, TensorRole::kLabels), tokens);
  add_usual(tensor_entry(CostModule::kLlm, TensorRole::kPositions), tokens);
  if (rope) add_usual(tensor_entry(CostModule::kLlm, TensorRole::kRope), tokens);
  if (weighted) add_usual(tensor_entry(CostModule::kLlm, TensorRole::kTurnWeights), tokens);
  add_usual(tensor_entry(CostModule::kLlm, TensorRole::kLengths), 1);
  return out;
}

Load PartPlan::load() const {
  Load load;
  const std::int64_t units = grid.patches();
  load[CostModule::kVision] = {images, images * units, images * units * units};
  for (const std::int32_t frames : audio.window_frames) {
    load[CostModule::kAudio].add_sequence(audio.seen_frames(frames) / 2);
  }
  load[CostModule::kLlm].units = tokens;
  load.label_tokens = label_tokens;
  return load;
}

Load SamplePlan::load() const {
  Load load;
  for (const PartPlan& part : parts) load += part.load();
  load[CostModule::kLlm] = {};
  load[CostModule::kLlm].add_sequence(tokens);
  load.label_tokens = label_tokens;
  load.tensor_bytes = tensor_bytes();
  return load;
}

}  // namespace isocost
