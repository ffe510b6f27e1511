#include "decode/prepare/sample_tensors.h"

#include <algorithm>
#include <numeric>

#include "base/load.h"

namespace isocost {
namespace {

constexpr std::int64_t kMediaColumns = 4;
static_assert(tensor_entry(CostModule::kVision, TensorRole::kMedia).row_width == kMediaColumns);

constexpr std::int64_t kRopeColumns = 3;
static_assert(tensor_entry(CostModule::kLlm, TensorRole::kRope).row_width == kRopeColumns);

}  // namespace

SampleTensors::SampleTensors(const SamplePlan& plan, BufferPool& pool)
    : tokens_(plan.tokens),
      has_images_(plan.images > 0),
      has_media_(plan.media > 0),
      has_audio_(plan.windows > 0),
      has_rope_(plan.rope),
      has_weights_(plan.weighted),
      patches_(pool, plan.patch_rows, plan.patch_bytes),
      grids_(pool, plan.images, 2),
      media_(pool, plan.media, kMediaColumns),
      image_lengths_(pool, plan.images, 1),
      mel_(pool, plan.mel_frames, plan.mel_bins),
      window_lengths_(pool, plan.windows, 1),
      ids_(pool, plan.tokens, 1),
      labels_(pool, plan.tokens, 1),
      positions_(pool, plan.tokens, 1),
      rope_(pool, plan.rope ? plan.tokens : 0, kRopeColumns),
      weights_(pool, plan.weighted ? plan.tokens : 0, 1),
      lengths_(pool, 1, 1) {}

void SampleTensors::append(std::int64_t token, std::int64_t label, std::int64_t count,
                           float weight) {
  std::ranges::fill(ids_.take(count), token);
  std::ranges::fill(labels_.take(count), label);
  if (has_rope_) rope_positions_.text(rope_.take(count));
  if (has_weights_) std::ranges::fill(weights_.take(count), weight);
}

void SampleTensors::append_medium(std::int64_t token, std::int64_t count, const PartPlan& plan) {
  std::ranges::fill(ids_.take(count), token);
  std::ranges::fill(labels_.take(count), kIgnoredLabel);
  if (has_weights_) std::ranges::fill(weights_.take(count), 1.0F);
  if (has_rope_) {
    rope_positions_.pictures(rope_.take(count), plan.images / plan.placeholders, plan.grid,
                             plan.rope_interval);
  }
}

void SampleTensors::describe(const PartShape& shape, const PartPlan& plan) {
  const auto columns = media_.take(1);
  columns[0] = shape.modality == Modality::kVideo ? 1 : 0;
  columns[1] = static_cast<std::int32_t>(plan.images);
  columns[2] = shape.height;
  columns[3] = shape.width;
}

std::span<std::byte> SampleTensors::next_image(PatchGrid grid, std::int32_t depth) {
  const auto sides = grids_.take(1);
  sides[0] = grid.rows;
  sides[1] = grid.columns;
  const std::int64_t rows = grid.patches() * depth;
  image_lengths_.push(static_cast<std::int32_t>(rows));
  return std::as_writable_bytes(patches_.take(rows));
}

std::span<float> SampleTensors::next_audio(const AudioPlan& plan) {
  for (const std::int32_t frames : plan.window_frames) window_lengths_.push(frames);
  return mel_.take(
      std::accumulate(plan.window_frames.begin(), plan.window_frames.end(), std::int64_t{0}));
}

Result<std::vector<NamedTensor>> SampleTensors::finish() {
  const auto positions = positions_.take(tokens_);
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  lengths_.push(static_cast<std::int32_t>(tokens_));
  std::vector<NamedTensor> out;
  if (has_images_) {
    ISOCOST_TRY(patches_.publish(tensor_entry(CostModule::kVision, TensorRole::kRows), out));
    ISOCOST_TRY(grids_.publish(tensor_entry(CostModule::kVision, TensorRole::kGrids), out));
    if (has_media_) {
      ISOCOST_TRY(media_.publish(tensor_entry(CostModule::kVision, TensorRole::kMedia), out));
    }
    ISOCOST_TRY(
        image_lengths_.publish(tensor_entry(CostModule::kVision, TensorRole::kLengths), out));
  }
  if (has_audio_) {
    ISOCOST_TRY(mel_.publish(tensor_entry(CostModule::kAudio, TensorRole::kRows), out));
    ISOCOST_TRY(
        window_lengths_.publish(tensor_entry(CostModule::kAudio, TensorRole::kLengths), out));
  }
  ISOCOST_TRY(ids_.publish(tensor_entry(CostModule::kLlm, TensorRole::kIds), out));
  ISOCOST_TRY(labels_.publish(tensor_entry(CostModule::kLlm, TensorRole::kLabels), out));
  ISOCOST_TRY(positions_.publish(tensor_entry(CostModule::kLlm, TensorRole::kPositions), out));
  if (has_rope_) ISOCOST_TRY(rope_.publish(tensor_entry(CostModule::kLlm, TensorRole::kRope), out));
  if (has_weights_) {
    ISOCOST_TRY(weights_.publish(tensor_entry(CostModule::kLlm, TensorRole::kTurnWeights), out));
  }
  ISOCOST_TRY(lengths_.publish(tensor_entry(CostModule::kLlm, TensorRole::kLengths), out));
  return out;
}

}  // namespace isocost
