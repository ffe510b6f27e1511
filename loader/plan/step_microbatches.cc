#include "loader/plan/step_microbatches.h"

#include <algorithm>

namespace isocost {

std::uint32_t microbatches_for(std::int64_t samples, const PlanOptions& options) {
  const std::int64_t whole = options.fixed_microbatches();
  const std::int64_t wanted =
      (samples * whole + options.global_batch_size - 1) / options.global_batch_size;
  const std::int64_t possible = samples / options.ranks;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(1, std::min({wanted, possible, whole})));
}

std::int64_t microbatches_of_epoch(std::int64_t steps, std::int64_t samples,
                                   const PlanOptions& options) {
  if (steps == 0) return 0;
  const std::int64_t before = steps - 1;
  // Where a limit ends the epoch, or its rest is left out, more samples than a batch are left.
  const std::int64_t last =
      std::min(samples - before * options.global_batch_size, options.global_batch_size);
  return before * options.fixed_microbatches() + microbatches_for(last, options);
}

}  // namespace isocost
