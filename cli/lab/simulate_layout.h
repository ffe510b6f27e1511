#pragma once

#include "balancer/layout/layout.h"
#include "balancer/layout/layout_model.h"
#include "base/result.h"
#include "cli/lab/simulate_arguments.h"
#include "costmodel/sample_cost.h"

namespace isocost::cli {

/// Returns the layout to simulate: that of --layout, or the one of the degree flags, in which
/// `mean` chooses the encoder's stages. Interconnect and activation caps of a layout file are
/// copied into `job` and `arguments` unless flags set them. Errors: those of Layout::load as usage
/// errors, with the file's name; kInvalidArgument naming the flag.
Result<Layout> layout_of(SimulateArguments& arguments, const SampleCost& mean, JobModel& job);

}  // namespace isocost::cli
