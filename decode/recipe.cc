#include "decode/recipe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/fingerprint.h"
#include "base/load.h"
#include "base/result.h"
#include "base/sample_part.h"
#include "decode/internal/audio.h"
#include "decode/internal/image_decoder.h"
#include "decode/internal/patch_grid.h"
#include "decode/internal/sample_plan.h"
#include "decode/internal/video.h"
#include "decode/sample_shape.h"

namespace isocost {
namespace {

constexpr std::string_view kName = "native28";

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// NaN lies in no range.
Status check(std::string_view field, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return Error(ErrorCode::kInvalidArgument, "recipe: " + std::string(field) + " is " +
                                                number(value) + "; it must be " + number(least) +
                                                " to " + number(most));
}

Result<SamplePlan> plan(const SampleShape& shape, const RecipeOptions& options) {
  if (shape.parts.empty()) {
    return Error(ErrorCode::kInvalidArgument, "a sample needs at least one part");
  }
  SamplePlan plan;
  plan.parts.reserve(shape.parts.size());
  for (const PartShape& part : shape.parts) ISOCOST_TRY(plan.add(part, options));
  return plan;
}

SamplePart describe(const PartShape& shape, const PartPlan& plan) {
  SamplePart part;
  part.modality = shape.modality;
  part.rows = static_cast<std::uint32_t>(plan.grid.rows);
  part.columns = static_cast<std::uint32_t>(plan.grid.columns);
  part.frames = static_cast<std::uint32_t>(plan.images + plan.mel_frames());
  if (shape.modality == Modality::kVideo) {
    for (const std::int64_t time_us : frame_times_us(shape.duration_us, plan.images)) {
      part.timestamps_s.push_back(1e-6 * static_cast<double>(time_us));
    }
  }
  return part;
}

std::int64_t part_working_set_bytes(const PartShape& shape, const PartPlan& plan,
                                    const RecipeOptions& options) {
  switch (shape.modality) {
    case Modality::kText:
      return 3 * shape.encoded_bytes;  // JSON: the bytes, a token, the unescaped text
    case Modality::kImage:
      return image_working_set_bytes(shape, plan.grid);
    case Modality::kAudio:
      return audio_working_set_bytes(shape, options.max_audio_seconds);
    case Modality::kVideo:
      return video_working_set_bytes(shape, plan.grid.width(), plan.grid.height());
  }
  return 0;
}

}  // namespace

Status RecipeOptions::validate() const {
  if (name != kName) {
    return Error(ErrorCode::kInvalidArgument,
                 "recipe: there is none called '" + name + "'; use native28");
  }
  constexpr double kMostPatches = 1 << 20;
  ISOCOST_TRY(check("max_image_patches", max_image_patches, 4, kMostPatches));
  ISOCOST_TRY(check("max_frame_patches", max_frame_patches, 4, kMostPatches));
  ISOCOST_TRY(check("video_fps", video_fps, 0.001, 1000));
  ISOCOST_TRY(check("max_video_frames", max_video_frames, 1, 1 << 16));
  ISOCOST_TRY(check("max_audio_seconds", max_audio_seconds, 0.01, 86'400));
  return check("max_text_tokens", max_text_tokens, 1, 1 << 24);
}

Result<Recipe> Recipe::create(const RecipeOptions& options) {
  ISOCOST_TRY(options.validate());
  return Recipe(options);
}

Result<Load> Recipe::load(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan(shape, options_));
  return sample.load();
}

Result<std::vector<SamplePart>> Recipe::parts(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan(shape, options_));
  std::vector<SamplePart> parts;
  parts.reserve(sample.parts.size());
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    parts.push_back(describe(shape.parts[i], sample.parts[i]));
  }
  return parts;
}

Result<std::int64_t> Recipe::working_set_bytes(const SampleShape& shape) const {
  ISOCOST_ASSIGN(const SamplePlan sample, plan(shape, options_));
  std::int64_t scratch = 0;  // parts are decoded one after another
  for (std::size_t i = 0; i < shape.parts.size(); ++i) {
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
    if (shape.parts[i].encoded_bytes < 0 || shape.parts[i].encoded_bytes > kMostBytes) {
      return Error(ErrorCode::kInvalidArgument,
                   "part " + std::to_string(i) + " without a size that can be");
    }
    const auto bytes = part_working_set_bytes(shape.parts[i], sample.parts[i], options_);
    scratch = std::max(scratch, bytes);
  }
  const std::int64_t tensors = sample.tensor_bytes();
  constexpr std::int64_t kEach =
      std::int64_t{9} * 128;  // nine tensors, each with some slack of the pool
  const auto sum = checked_sum(tensors + tensors / 8 + kEach, scratch);
  if (!sum) return Error(ErrorCode::kResourceExhausted, "the sample is too large");
  return *sum;
}

std::uint64_t Recipe::fingerprint() const {
  Fingerprint hash;
  hash.add(std::string_view(options_.name));
  hash.add(options_.max_image_patches);
  hash.add(options_.max_frame_patches);
  hash.add(options_.video_fps);
  hash.add(options_.max_video_frames);
  hash.add(options_.max_audio_seconds);
  hash.add(options_.max_text_tokens);
  return hash.value();
}

}  // namespace isocost
