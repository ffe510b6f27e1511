#include "tests/balancer/partition/brute_force.h"

#include <algorithm>
#include <string>

namespace isocost {
namespace {

using Bins = std::vector<std::vector<std::uint32_t>>;

bool keeps_caps(const BalanceProblem& problem, const Bins& bins) {
  return std::all_of(bins.begin(), bins.end(), [&](const auto& bin) {
    for (std::size_t r = 0; r < problem.resources.size(); ++r) {
      std::int64_t sum = 0;
      for (const std::uint32_t item : bin) sum += problem.size(item, r);
      if (sum > problem.resources[r].cap) return false;
    }
    return true;
  });
}

bool none_empty(const Bins& bins) {
  return std::none_of(bins.begin(), bins.end(), [](const auto& bin) { return bin.empty(); });
}

void try_all(const BalanceProblem& problem, std::uint32_t item, Bins& bins,
             std::optional<double>& best) {
  if (item == problem.items()) {
    if (!none_empty(bins) || !keeps_caps(problem, bins)) return;
    const double value = objective(problem, bins);
    if (!best || value < *best) best = value;
    return;
  }
  for (auto& bin : bins) {
    bin.push_back(item);
    try_all(problem, item + 1, bins, best);
    bin.pop_back();
  }
}

}  // namespace

double objective(const BalanceProblem& problem, const Bins& bins) {
  double largest = 0;
  double rank_load = 0;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    if (b % problem.microbatches == 0) rank_load = 0;
    const double slowdown =
        problem.rank_slowdowns.empty() ? 1 : problem.rank_slowdowns[b / problem.microbatches];
    std::vector<double> load(problem.dimensions, 0.0);
    for (const std::uint32_t item : bins[b]) {
      for (std::size_t k = 0; k < problem.dimensions; ++k) {
        load[k] += problem.costs[item * problem.dimensions + k];
      }
    }
    for (const double value : load) {
      rank_load += value;
      if (problem.objective == Objective::kLargestMicrobatch) {
        largest = std::max(largest, slowdown * value);
      }
    }
    if (problem.objective == Objective::kSlowestRank) {
      largest = std::max(largest, slowdown * rank_load);
    }
  }
  return largest;
}

std::optional<double> brute_force(const BalanceProblem& problem) {
  std::optional<double> best;
  Bins bins(problem.ranks * problem.microbatches);
  try_all(problem, 0, bins, best);
  return best;
}

std::string plan_fault(const BalanceProblem& problem, const BalanceResult& result) {
  if (result.bins.size() != problem.ranks * problem.microbatches) return "wrong number of bins";
  if (!none_empty(result.bins)) return "an empty bin";
  if (!keeps_caps(problem, result.bins)) return "a cap is broken";
  std::vector<int> seen(problem.items(), 0);
  for (const auto& bin : result.bins) {
    if (!std::is_sorted(bin.begin(), bin.end())) return "a bin is not in ascending order";
    for (const std::uint32_t item : bin) {
      if (item >= seen.size()) return "an item that does not exist";
      ++seen[item];
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != 1)
      return "item " + std::to_string(i) + " occurs " + std::to_string(seen[i]) + " times";
  }
  const double value = objective(problem, result.bins);
  if (std::abs(value - result.makespan) > 1e-12 * std::max(value, 1e-300)) return "wrong makespan";
  return "";
}

}  // namespace isocost
