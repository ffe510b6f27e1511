#include "cli/trace/sampled_batches.h"

#include "base/random.h"

namespace isocost::cli {

SampledBatches draw_batches(const TraceMix& mix, const CostProfile& profile, std::size_t count,
                            std::size_t size, std::uint64_t seed) {
  Random random(seed);
  SampledBatches batches;
  batches.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    batches.push_back(costs_of(mix.draw(size, random), profile));
  }
  return batches;
}

std::vector<SampleCost> costs_of(std::span<const Load> loads, const CostProfile& profile) {
  const SamplePrices prices(profile);
  std::vector<SampleCost> costs;
  costs.reserve(loads.size());
  for (const Load& load : loads) costs.push_back(prices.of(load));
  return costs;
}

}  // namespace isocost::cli
