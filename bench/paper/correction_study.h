#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "balancer/layout/layout.h"
#include "balancer/layout/layout_model.h"
#include "base/load.h"
#include "base/result.h"

namespace isocost::paper {

/// Samples whose LLM takes longer than the model profile says: the longest, by tokens.
struct Anomalies {
  double share = 0;   ///< Part of the samples.
  double factor = 1;  ///< On their LLM seconds.
};

struct CorrectionRun {
  std::size_t steps = 48;
  std::size_t size = 512;
  std::int64_t evaluations = 2'000;
  std::uint64_t seed = 0;
  double overhead = 0;  ///< Share of a step that measuring takes: the gate's price.
};

/// Steps of the second half of a run.
struct CorrectionResult {
  double corrected_s = 0;    ///< Mean step of plans by the cost model, which learns.
  double uncorrected_s = 0;  ///< Mean step of plans of the same samples by the model profile.
  bool open = true;          ///< Whether the cost model's gate lets it correct at the end.
  double gain = 0;           ///< The cost model's own estimate of the saved share.
};

/// Plans, simulates and measures steps with anomalies: the project's cost model observes every
/// microbatch and corrects the plans of later steps. Errors: those of planning and simulating.
Result<CorrectionResult> simulate_correction(const JobModel& job, const Layout& layout,
                                             std::span<const Load> loads,
                                             const Anomalies& anomalies, const CorrectionRun& run);

}  // namespace isocost::paper
