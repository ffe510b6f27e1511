#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/load.h"
#include "costmodel/predictor.h"
#include "costmodel/profile.h"

namespace isocost {

/// Cost of one sample, or the summed cost of a microbatch, for the two modules of a pipeline.
/// Seconds are those of whole modules, forward and backward, on one device group (all stages of a
/// module in one place).
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

/// Returns the mean cost of the samples, field by field. `samples` must not be empty.
SampleCost mean(std::span<const SampleCost> samples);

/// Prices samples by a model profile, on one rank. Vision and audio are one encoder. The fixed
/// seconds of a microbatch are not included. Immutable, thread-safe.
class SamplePrices {
 public:
  explicit SamplePrices(const CostProfile& profile);

  SampleCost of(const Load& load) const;

 private:
  std::array<ModulePredictor, kModules> predictors_;
};

/// Returns a load that has only totals, as in a trace: encoder units become vision
/// patches in sequences of 1,024 (the last one shorter), LLM tokens become one sequence.
Load load_of_counts(std::int64_t encoder_units, std::int64_t llm_tokens);

}  // namespace isocost
