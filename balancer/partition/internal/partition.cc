#include "balancer/partition/internal/partition.h"

#include <algorithm>
#include <array>

namespace isocost {

double makespan_of(const Partition& problem, const Bins& bins) {
  double largest = 0;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    std::array<double, kMaxDimensions> load{};
    for (const std::uint32_t item : bins[b]) {
      for (std::size_t k = 0; k < problem.dimensions; ++k) load[k] += problem.cost(item)[k];
    }
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      largest = std::max(largest, problem.slowdown(b) * load[k]);
    }
  }
  return largest;
}

bool is_feasible(const Partition& problem, const Bins& bins) {
  if (bins.size() != problem.bins) return false;
  std::vector<bool> seen(problem.items(), false);
  std::size_t placed = 0;
  for (const auto& bin : bins) {
    if (bin.size() < problem.min_items) return false;
    std::int64_t free_bytes = problem.bytes_cap;
    for (const std::uint32_t item : bin) {
      if (item >= seen.size() || seen[item] || problem.bytes_of(item) > free_bytes) return false;
      seen[item] = true;
      free_bytes -= problem.bytes_of(item);
      ++placed;
    }
  }
  return placed == problem.items();
}

}  // namespace isocost
