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

// The text of a model in a directory: a part of format kTokens, the sample's first, in which each
// of the parts behind it has a placeholder.

/// How a medium stands in the text: `id` for each vector that the encoder makes of it, between
/// `begin` and `end` where the model has these.
struct MediaTokens {
  Modality modality = Modality::kImage;
  std::int64_t id = 0;
  std::optional<std::int64_t> begin = std::nullopt;
  std::optional<std::int64_t> end = std::nullopt;
  /// The token that stands for the medium until then, which differs between modalities: `id` if
  /// nothing else is said.
  std::optional<std::int64_t> placeholder = std::nullopt;

  std::int64_t placeholder_id() const { return placeholder.value_or(id); }
};

/// Plans the part. Errors: kInvalidArgument.
Result<PartPlan> plan_tokens(const PartShape& shape);
/// Errors: kInvalidArgument unless the sample's first part, and no other, is one of tokens.
Status check_tokens_first(const SampleShape& shape);
/// Returns the memory of add_tokens in bytes.
std::int64_t tokens_working_set_bytes(const PartShape& shape);
/// Appends the text; in place of each placeholder, the tokens that the plan counted for its medium,
/// or its share of them: a modality's placeholders stand for the sample's parts of it in order,
/// each part with as many as it has. Errors: kCorrupt if the part is not what was planned; kIo.
Status add_tokens(const PartBytes& bytes, const SamplePlan& plan,
                  std::span<const MediaTokens> media, SampleTensors& to);

}  // namespace isocost
