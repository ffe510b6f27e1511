#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/sample_part.h"
#include "decode/prepare/media_model.h"
#include "decode/prepare/sample_plan.h"
#include "decode/prepare/sample_tensors.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// A family whose media are sounds that become clips of 30 s (see plan_clip).
class ClipModel : public MediaModel {
 protected:
  std::int64_t medium_bytes(const PartShape& shape, const PartPlan& plan) const final;
  Status add_medium(const PartBytes& bytes, const PartPlan& plan, SampleTensors& to,
                    const DecodeLimit& limit) const final;
};

}  // namespace isocost
