#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sample_part.h"
#include "decode/prepare/sample_plan.h"
#include "decode/prepare/sample_tensors.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// A medium for microbatches that lack one, as small as the model takes: its size, its plan, and
/// the token that represents each of its vectors.
struct DummyMedium {
  PartShape shape;
  PartPlan plan;
  std::int64_t token = 0;
  bool rope = false;  ///< Whether tokens have positions of M-RoPE.
};

/// Preparation of samples for one family of models: a class for each file in recipes/. Recipe plans
/// and decodes part by part with it. Immutable; const-safe.
class RecipeFamily {
 public:
  virtual ~RecipeFamily() = default;

  /// Returns all its numbers as a JSON object of less than 2 KiB; `find_family(name)->parse` makes
  /// the same family of it.
  virtual std::string description() const = 0;

  /// Plans the sample's part `i`. Errors: kInvalidArgument for an impossible size; kUnsupported.
  virtual Result<PartPlan> plan_part(const SampleShape& shape, std::size_t i) const = 0;
  /// Adds to the plan of all parts what belongs to the sample as a whole. Errors: those of
  /// plan_part, for parts that do not belong together.
  virtual Status plan_sample(const SampleShape& shape, SamplePlan& plan) const = 0;

  /// Returns when each frame of a video that the model sees is shown, in seconds. `plan` must be a
  /// video's.
  virtual std::vector<double> timestamps_s(const PartShape& shape, const PartPlan& plan) const = 0;

  /// Returns Recipe::text_settings.
  virtual std::string text_settings() const { return {}; }

  /// Returns the modality with whose media the encoder sees those of `modality`, in one call.
  virtual Modality encoder_call(Modality modality) const { return modality; }
  /// Returns the medium of Recipe::dummy; nothing if there is none.
  virtual std::optional<DummyMedium> dummy(Modality) const { return std::nullopt; }

  /// Returns the peak memory of `add` for a part in bytes, without the tensors.
  virtual std::int64_t working_set_bytes(const PartShape& shape, const PartPlan& plan) const = 0;
  /// Appends part `i`, for which `to` has exactly the planned room. Called for all parts in order.
  /// Errors: those of Recipe::tensors.
  virtual Status add(const PartBytes& bytes, const SamplePlan& plan, std::size_t i,
                     SampleTensors& to, const DecodeLimit& limit) const = 0;
};

using Family = std::shared_ptr<const RecipeFamily>;

/// Checks the part's size. Errors: kCorrupt if it is no longer the one in its shape.
Status check_size(const PartBytes& part);

}  // namespace isocost
