#include "loader/plan/microbatch_count.h"

#include <algorithm>
#include <iterator>

#include "loader/plan/internal/padded_plan.h"

namespace isocost {
namespace {

// Microbatches per rank and step if neither their number nor a limit was given.
constexpr std::int64_t kUsual = 4;

// Returns a number of microbatches per rank below which the limits cannot be kept: those of a
// microbatch's contents, padded or not, and that of its samples.
std::int64_t least_microbatches(const std::vector<Load>& loads, std::int64_t ranks,
                                const CostModel& model, const MicrobatchLimits& limits) {
  const auto per_rank = [ranks](std::int64_t bins) { return (bins + ranks - 1) / ranks; };
  const std::int64_t by_samples = (std::ssize(loads) + kMostMeanSamples - 1) / kMostMeanSamples;
  const std::int64_t least = per_rank(std::max(by_samples, limits.least_microbatches(loads)));
  if (!model.is_padded(CostModule::kLlm)) return least;
  return std::max(least, per_rank(least_padded_microbatches(loads, model, limits)));
}

}  // namespace

std::int64_t fixed_microbatches(const PlanOptions& options) {
  const bool given = options.microbatches > 0 || MicrobatchLimits::any_given(options);
  return given ? options.microbatches : kUsual;
}

std::uint32_t microbatches_for(std::int64_t samples, const PlanOptions& options) {
  const std::int64_t whole = fixed_microbatches(options);
  const std::int64_t wanted =
      (samples * whole + options.global_batch_size - 1) / options.global_batch_size;
  const std::int64_t possible = samples / options.ranks;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(1, std::min({wanted, possible, whole})));
}

std::int64_t microbatches_of_epoch(std::int64_t steps, std::int64_t samples,
                                   const PlanOptions& options) {
  if (steps == 0) return 0;
  const std::int64_t before = steps - 1;
  // If a limit ends the epoch, or its rest is left out, more samples than a batch are left.
  const std::int64_t last =
      std::min(samples - before * options.global_batch_size, options.global_batch_size);
  return before * fixed_microbatches(options) + microbatches_for(last, options);
}

MicrobatchRange microbatch_range(const std::vector<Load>& loads, const CostModel& model,
                                 const PlanOptions& options, const MicrobatchLimits& limits,
                                 const ServedLayout* layout) {
  const auto samples = static_cast<std::int64_t>(loads.size());
  const std::uint32_t usual = microbatches_for(samples, options);
  const bool whole = samples >= options.global_batch_size;
  const bool fixed = fixed_microbatches(options) > 0;
  if (limits.empty() || (fixed && whole)) return {usual, usual};
  // Stages of a layout receive no repeats that would fill a microbatch.
  const std::int64_t filled = layout != nullptr ? 0 : options.ranks - 1;
  const std::int64_t one_each = (samples + filled) / options.ranks;
  const std::int64_t last = fixed ? std::min(one_each, options.microbatches) : one_each;
  const std::int64_t least = least_microbatches(loads, options.ranks, model, limits);
  const std::int64_t first = fixed ? std::max<std::int64_t>(least, usual) : least;
  return {static_cast<std::uint32_t>(std::min(first, last)), static_cast<std::uint32_t>(last)};
}

}  // namespace isocost
