#include "balancer/partition/internal/rank_plan.h"

#include <algorithm>
#include <utility>

#include "balancer/partition/internal/bounds.h"
#include "balancer/partition/internal/construct.h"
#include "balancer/partition/internal/local_search.h"

namespace isocost {
namespace {

// Divisor of the work for a rank's microbatches: the makespan is already decided when they are
// planned.
constexpr std::int64_t kInnerShare = 96;
constexpr double kInnerGap = 1e-2;

std::optional<Bins> solve(const Partition& problem, double enough_gap, std::int64_t rounds) {
  auto bins = construct_bins(problem);
  if (!bins || rounds == 0) return bins;
  const LowerBound bound = partition_bound(problem);
  ImproveLimits limits = improve_limits(bound.value, enough_gap, rounds, problem);
  // Sums over a rank rarely meet a bound.
  limits.polish = static_cast<std::int64_t>(problem.bins);
  improve_bins(problem, limits, *bins);
  return bins;
}

// Divides one rank's items over its microbatches. Item numbers are those of the whole problem.
std::optional<Bins> plan_microbatches(const BalanceProblem& problem, const BalanceOptions& options,
                                      const std::vector<std::uint32_t>& items) {
  std::vector<double> costs;
  std::vector<std::int64_t> sizes;
  const std::size_t resources = problem.resources.size();
  for (const std::uint32_t item : items) {
    const double* cost = &problem.costs[item * problem.dimensions];
    costs.insert(costs.end(), cost, cost + problem.dimensions);
    for (std::size_t r = 0; r < resources; ++r) sizes.push_back(problem.size(item, r));
  }
  Partition part{.dimensions = problem.dimensions, .bins = problem.microbatches, .costs = costs};
  add_caps(problem, part);
  part.sizes = sizes;
  auto bins = solve(part, std::max(options.enough_gap, kInnerGap),
                    options.improvement_rounds / kInnerShare);
  if (!bins) return std::nullopt;
  for (auto& bin : *bins) {
    for (std::uint32_t& item : bin) item = items[item];
  }
  return bins;
}

std::optional<Bins> ranks_first(const BalanceProblem& problem, const BalanceOptions& options,
                                const Partition& ranks) {
  const auto by_rank = solve(ranks, options.enough_gap, options.improvement_rounds);
  if (!by_rank) return std::nullopt;
  Bins bins;
  for (const auto& items : *by_rank) {
    auto microbatches = plan_microbatches(problem, options, items);
    if (!microbatches) return std::nullopt;
    for (auto& bin : *microbatches) bins.push_back(std::move(bin));
  }
  return bins;
}

std::optional<Bins> microbatches_first(const BalanceProblem& problem, const BalanceOptions& options,
                                       const std::vector<double>& totals) {
  Partition all{.dimensions = problem.dimensions,
                .bins = problem.ranks * problem.microbatches,
                .costs = problem.costs};
  add_caps(problem, all);
  auto microbatches = solve(all, options.enough_gap, options.improvement_rounds);
  if (!microbatches) return std::nullopt;
  std::vector<double> loads;
  for (const auto& bin : *microbatches) {
    double load = 0;
    for (const std::uint32_t item : bin) load += totals[item];
    loads.push_back(load);
  }
  // There are exactly as many items as the ranks must hold, so each rank gets `microbatches` items.
  const Partition whole{.bins = problem.ranks,
                        .min_items = problem.microbatches,
                        .costs = loads,
                        .slowdowns = problem.rank_slowdowns};
  const auto by_rank = solve(whole, options.enough_gap, options.improvement_rounds);
  if (!by_rank) return std::nullopt;
  Bins bins;
  for (const auto& rank : *by_rank) {
    for (const std::uint32_t bin : rank) bins.push_back(std::move((*microbatches)[bin]));
  }
  return bins;
}

}  // namespace

std::vector<double> item_totals(const BalanceProblem& problem) {
  std::vector<double> totals(problem.items(), 0.0);
  for (std::size_t i = 0; i < totals.size(); ++i) {
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      totals[i] += problem.costs[i * problem.dimensions + k];
    }
  }
  return totals;
}

Partition rank_partition(const BalanceProblem& problem, const std::vector<double>& totals) {
  Partition ranks{.bins = problem.ranks,
                  .min_items = problem.microbatches,
                  .costs = totals,
                  .slowdowns = problem.rank_slowdowns};
  add_caps(problem, ranks, static_cast<std::int64_t>(problem.microbatches));
  return ranks;
}

std::optional<Bins> plan_ranks(const BalanceProblem& problem, const BalanceOptions& options) {
  const std::vector<double> totals = item_totals(problem);
  const Partition ranks = rank_partition(problem, totals);
  if (auto bins = ranks_first(problem, options, ranks)) return bins;
  return microbatches_first(problem, options, totals);
}

}  // namespace isocost
