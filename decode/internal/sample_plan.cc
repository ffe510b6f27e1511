#include "decode/internal/sample_plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "base/load.h"
#include "base/result.h"
#include "decode/internal/audio.h"
#include "decode/internal/patch_grid.h"
#include "decode/recipe.h"
#include "decode/sample_shape.h"

namespace isocost {
namespace {

/// Four patches a token, so sums of squared patches stay below 2^60.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 28;

Error impossible(const PartShape& shape, const char* what) {
  return {ErrorCode::kInvalidArgument,
          std::string(modality_name(shape.modality)) + " part without " + what};
}

/// Within what keeps sums of bytes far from overflow.
bool has_pixels(const PartShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  return shape.width > 0 && shape.height > 0 && std::int64_t{shape.width} * shape.height <= kMost;
}

Result<PartPlan> plan_part(const PartShape& shape, const RecipeOptions& options) {
  PartPlan plan;
  switch (shape.modality) {
    case Modality::kText:
      if (shape.text_bytes < 0) return impossible(shape, "a size");
      plan.text_tokens = std::min<std::int64_t>(shape.text_bytes, options.max_text_tokens);
      return plan;
    case Modality::kImage:
      if (!has_pixels(shape)) return impossible(shape, "a possible picture size");
      plan.grid = patch_grid(shape.width, shape.height, options.max_image_patches);
      plan.images = 1;
      return plan;
    case Modality::kVideo:
      if (!has_pixels(shape)) return impossible(shape, "a possible picture size");
      if (shape.duration_us < 0) return impossible(shape, "a duration");
      plan.grid = patch_grid(shape.width, shape.height, options.max_frame_patches);
      plan.images = frame_count(shape.duration_us, options.video_fps, options.max_video_frames);
      return plan;
    case Modality::kAudio:
      if (shape.frames <= 0 || shape.sample_rate <= 0) return impossible(shape, "samples");
      plan.audio = plan_audio(shape, options.max_audio_seconds);
      return plan;
  }
  return impossible(shape, "a modality");
}

}  // namespace

std::int64_t PartPlan::mel_frames() const {
  return std::accumulate(audio.window_frames.begin(), audio.window_frames.end(), std::int64_t{0});
}

Status SamplePlan::add(const PartShape& shape, const RecipeOptions& options) {
  ISOCOST_ASSIGN(PartPlan part, plan_part(shape, options));
  tokens += part.tokens();  // a part has less than 2^45, see RecipeOptions::validate
  if (tokens > kMaxTokens) {
    return Error(ErrorCode::kResourceExhausted,
                 "the sample makes more than " + std::to_string(kMaxTokens) + " tokens");
  }
  images += part.images;
  patches += part.images * part.grid.patches();
  windows += static_cast<std::int64_t>(part.audio.window_frames.size());
  mel_frames += part.mel_frames();
  text_tokens += part.text_tokens;
  parts.push_back(std::move(part));
  return {};
}

std::int64_t SamplePlan::tensor_bytes() const {
  constexpr std::int64_t kInt32 = 4;
  constexpr std::int64_t kInt64 = 8;
  constexpr std::int64_t kFloat = 4;
  const std::int64_t vision = patches * kPatchBytes + images * (2 + 1) * kInt32;
  const std::int64_t audio = mel_frames * kMelBins * kFloat + windows * kInt32;
  return vision + audio + tokens * 3 * kInt64 + kInt32;
}

Load SamplePlan::load() const {
  Load load;
  for (const PartPlan& part : parts) {
    const std::int64_t units = part.grid.patches();
    load[Module::kVision] += {part.images, part.images * units, part.images * units * units};
    for (const std::int32_t frames : part.audio.window_frames) {
      load[Module::kAudio].add_sequence(frames / 2);
    }
  }
  load[Module::kLlm].add_sequence(tokens);
  load.label_tokens = text_tokens + 1;  // and EOS
  load.tensor_bytes = tensor_bytes();
  return load;
}

}  // namespace isocost
