#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "decode/internal/recipe_family.h"
#include "decode/internal/sample_plan.h"
#include "decode/internal/sample_tensors.h"
#include "decode/internal/token_part.h"
#include "decode/sample_shape.h"

namespace isocost {

/// A family of models in directories that take text and images: the text is a part of tokens, and
/// the family says what becomes of a picture.
class ImageModel : public RecipeFamily {
 public:
  /// Errors: kUnsupported for parts that are neither text nor images.
  Result<PartPlan> plan_part(const PartShape& shape) const final;
  Status plan_sample(const SampleShape& shape, SamplePlan& plan) const final;
  std::int64_t working_set_bytes(const PartShape& shape, const PartPlan& plan) const final;
  Status add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i, SampleTensors& to,
             const DecodeLimit& limit) const final;

 protected:
  virtual ImageTokens image_tokens() const = 0;
  /// As plan_part, working_set_bytes and add, of a picture of a possible size.
  virtual Result<PartPlan> plan_picture(const PartShape& shape) const = 0;
  virtual std::int64_t picture_bytes(const PartShape& shape, const PartPlan& plan) const = 0;
  virtual Status add_picture(const PartBytes& bytes, const PartPlan& plan,
                             SampleTensors& to) const = 0;
};

}  // namespace isocost
