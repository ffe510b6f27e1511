#pragma once

#include <array>
#include <cstdint>

#include "base/load.h"
#include "costmodel/predictor.h"
#include "costmodel/profile.h"

namespace isocost {

/// A sample, or the sum of a microbatch's, as a pipeline sees it. Seconds are of whole modules,
/// forward and backward, on one device group (all stages of a module in one place).
struct SampleCost {
  double encoder_s = 0;
  double llm_s = 0;
  double encoder_units = 0;  ///< Patches and audio positions.
  double llm_units = 0;      ///< Tokens.

  SampleCost& operator+=(const SampleCost& other) {
    encoder_s += other.encoder_s;
    llm_s += other.llm_s;
    encoder_units += other.encoder_units;
    llm_units += other.llm_units;
    return *this;
  }
};

/// Samples in a profile's seconds on one rank: vision and audio are one encoder. Without the fixed
/// seconds of a microbatch. Immutable.
class SamplePrices {
 public:
  explicit SamplePrices(const CostProfile& profile);

  SampleCost of(const Load& load) const;

 private:
  std::array<ModulePredictor, kModules> predictors_;
};

/// A load of which only the totals are known, as in a trace: encoder units count as vision patches
/// in sequences of 1,024 (the last one shorter), LLM tokens as one sequence.
Load load_of_counts(std::int64_t encoder_units, std::int64_t llm_tokens);

}  // namespace isocost
