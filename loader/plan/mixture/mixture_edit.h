#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "loader/plan/mixture/mixture.h"

namespace isocost {

/// Returns the mixture with which a job goes on: the present one, and the sources of the saved one
/// that are gone, which give nothing any more. `step` of `epoch` is the first one that is not
/// trained yet; a mixture with proportions has one epoch.
/// Batches of `lookahead` steps are composed together, so edits begin at the next multiple of it.
///
/// Both must give the same samples to all earlier steps. So sources may be added and dropped, and
/// proportions, `epochs` and `skip_steps` may change, if they change later steps only. Errors:
/// kInvalidArgument that names the source, the step and both counts, or the setting that differs;
/// and those of Mixture::create.
Result<std::shared_ptr<const Mixture>> continued_mixture(const MixtureOptions& saved,
                                                         const MixtureOptions& present,
                                                         std::uint64_t step,
                                                         std::uint64_t lookahead = 1,
                                                         std::uint64_t epoch = 0);

/// Returns the step behind the window of `lookahead` steps that `step` lies in, or `step` where one
/// begins there: edits begin at this step.
std::uint64_t end_of_window(std::uint64_t step, std::uint64_t lookahead);

/// Refuses `skip_steps` that leave out other steps before `step` than a saved state did.
Status check_skipped_steps(const SkippedSteps& saved, const SkippedSteps& present,
                           std::uint64_t step);

}  // namespace isocost
