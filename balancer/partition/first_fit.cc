#include "balancer/partition/first_fit.h"

#include <algorithm>
#include <vector>

namespace isocost {
namespace {

// Returns the largest part of any resource's cap that an item takes.
double share_of(const BalanceProblem& problem, std::uint32_t item) {
  double share = 0;
  for (std::size_t r = 0; r < problem.resources.size(); ++r) {
    const auto cap = static_cast<double>(std::max<std::int64_t>(problem.resources[r].cap, 1));
    share = std::max(share, static_cast<double>(problem.size(item, r)) / cap);
  }
  return share;
}

}  // namespace

std::size_t bins_by_first_fit(const BalanceProblem& problem, std::span<const std::uint32_t> items) {
  if (items.empty()) return 0;
  if (problem.resources.empty()) return 1;
  std::vector<std::uint32_t> order(items.begin(), items.end());
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return share_of(problem, a) > share_of(problem, b);
  });
  const std::size_t resources = problem.resources.size();
  std::vector<std::int64_t> room;  // by bin and resource
  for (const std::uint32_t item : order) {
    const auto fits = [&](std::size_t bin) {
      for (std::size_t r = 0; r < resources; ++r) {
        if (problem.size(item, r) > room[bin * resources + r]) return false;
      }
      return true;
    };
    std::size_t bin = 0;
    while (bin * resources < room.size() && !fits(bin)) ++bin;
    if (bin * resources == room.size()) {
      for (const Resource& resource : problem.resources) room.push_back(resource.cap);
    }
    for (std::size_t r = 0; r < resources; ++r) room[bin * resources + r] -= problem.size(item, r);
  }
  return room.size() / resources;
}

}  // namespace isocost
