#pragma once

#include <array>
#include <cstdint>

#include "balancer/pipeline/pipeline_model.h"
#include "base/load.h"
#include "costmodel/predictor.h"
#include "costmodel/profile.h"

namespace isocost {

/// Samples in a profile's seconds on one rank: vision and audio are one encoder. Without the fixed
/// seconds of a microbatch. Immutable.
class SamplePrices {
 public:
  explicit SamplePrices(const CostProfile& profile);

  PipelineLoad of(const Load& load) const;

 private:
  std::array<ModulePredictor, kModules> predictors_;
};

/// A load of which only the totals are known, as in a trace: encoder units count as vision patches
/// in sequences of 1,024 (the last one shorter), LLM tokens as one sequence.
Load load_of_counts(std::int64_t encoder_units, std::int64_t llm_tokens);

}  // namespace isocost
