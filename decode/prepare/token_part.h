#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/sample_part.h"
#include "decode/prepare/sample_plan.h"
#include "decode/prepare/sample_tensors.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

// Functions for the text of a model in a directory: a part of format kTokens, the sample's first,
// in which each of the later parts has a placeholder.

/// Tokens that represent a medium in the text: `id` for each vector that the encoder makes of it,
/// between `begin` and `end` where the model has these.
struct MediaTokens {
  Modality modality = Modality::kImage;
  std::int64_t id = 0;
  std::optional<std::int64_t> begin = std::nullopt;
  std::optional<std::int64_t> end = std::nullopt;
  /// The single token that represents the medium before it is expanded, which differs between
  /// modalities; without a value it is `id`.
  std::optional<std::int64_t> placeholder = std::nullopt;

  std::int64_t placeholder_id() const { return placeholder.value_or(id); }
};

/// Returns the tokens of a model that has one for images and one for videos, without any around
/// them. A negative id: the model takes no videos. Returns nothing for other modalities.
std::optional<MediaTokens> picture_tokens(Modality modality, std::int64_t image_id,
                                          std::int64_t video_id);

/// Plans the part. Errors: kInvalidArgument.
Result<PartPlan> plan_tokens(const PartShape& shape);
/// Checks the order of parts. Errors: kInvalidArgument unless the sample's first part, and no
/// other, is one of tokens.
Status check_tokens_first(const SampleShape& shape);
/// Returns the memory of add_tokens in bytes.
std::int64_t tokens_working_set_bytes(const PartShape& shape);
/// Appends the text. Each placeholder is replaced by the tokens that the plan counted for its
/// medium, or by its share of them: a modality's placeholders represent the sample's parts of it in
/// order, each part with as many as it has. Errors: kCorrupt if the part is not the planned one;
/// kIo.
Status add_tokens(const PartBytes& bytes, const SamplePlan& plan,
                  std::span<const MediaTokens> media, SampleTensors& to);

}  // namespace isocost
