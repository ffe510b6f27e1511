#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/sample_part.h"
#include "decode/prepare/recipe_family.h"
#include "decode/prepare/sample_plan.h"
#include "decode/prepare/sample_tensors.h"
#include "decode/prepare/token_part.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// A family of models in directories: the text is a part of tokens, and the family defines how
/// media are prepared.
class MediaModel : public RecipeFamily {
 public:
  /// Plans part `i`. Errors: kUnsupported for media that the family does not take.
  Result<PartPlan> plan_part(const SampleShape& shape, std::size_t i) const final;
  Status plan_sample(const SampleShape& shape, SamplePlan& plan) const final;
  std::vector<double> timestamps_s(const PartShape& shape, const PartPlan& plan) const override;
  std::optional<DummyMedium> dummy(Modality modality) const final;
  std::int64_t working_set_bytes(const PartShape& shape, const PartPlan& plan) const final;
  Status add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i, SampleTensors& to,
             const DecodeLimit& limit) const final;

 protected:
  /// Returns whether the model takes positions of M-RoPE.
  virtual bool has_rope() const { return false; }
  /// Returns whether the family takes media of a modality: by default, those that stand in the
  /// text.
  virtual bool takes(Modality modality) const { return media_tokens(modality).has_value(); }
  /// Returns how media of a modality stand in the text; nothing if they do not.
  virtual std::optional<MediaTokens> media_tokens(Modality modality) const = 0;
  /// Checks the parts together; the first one is the text. Errors: kUnsupported for parts that the
  /// family does not take together.
  virtual Status check_sample(const SamplePlan&) const { return {}; }
  /// Implement plan_part, working_set_bytes and add for a medium of `sample` that the family takes.
  /// A picture's size has been checked.
  virtual Result<PartPlan> plan_medium(const PartShape& shape, const SampleShape& sample) const = 0;
  /// Returns the plan of the smallest medium of a modality that the model takes, however large the
  /// processor would make it. Its tokens are those of its vectors. Writes its size, or its samples,
  /// to `shape`.
  virtual Result<PartPlan> plan_smallest(PartShape& shape) const;
  virtual std::int64_t medium_bytes(const PartShape& shape, const PartPlan& plan) const = 0;
  virtual Status add_medium(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                            const DecodeLimit& limit) const = 0;
};

}  // namespace isocost
