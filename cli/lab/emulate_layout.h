#pragma once

#include "balancer/layout/layout.h"
#include "base/result.h"
#include "cli/lab/emulate_arguments.h"

namespace isocost::cli {

/// Returns the layout to emulate: that of --layout, or the one of the degree flags. Errors: those
/// of Layout::load as usage errors; kInvalidArgument for more than 4096 stages, an interleaved
/// schedule, and fewer samples than microbatches.
Result<Layout> layout_of(const EmulateArguments& arguments);

}  // namespace isocost::cli
