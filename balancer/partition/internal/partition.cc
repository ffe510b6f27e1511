#include "balancer/partition/internal/partition.h"

#include <algorithm>
#include <array>

namespace isocost {

void add_caps(const BalanceProblem& problem, Partition& partition, std::int64_t times) {
  partition.resources = problem.resources.size();
  partition.sizes = problem.sizes;
  for (std::size_t r = 0; r < partition.resources; ++r) {
    const std::int64_t cap = problem.resources[r].cap;
    partition.caps[r] = cap < kNoCap / times ? cap * times : kNoCap;
  }
}

double makespan_of(const Partition& problem, const Bins& bins) {
  double largest = 0;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    std::array<double, kMaxLoadDimensions> load{};
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
    Sizes held{};
    for (const std::uint32_t item : bin) {
      if (item >= seen.size() || seen[item] || !problem.has_room(held, item)) return false;
      seen[item] = true;
      problem.add(item, held);
      ++placed;
    }
  }
  return placed == problem.items();
}

}  // namespace isocost
