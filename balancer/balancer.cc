#include "balancer/balancer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "balancer/internal/bounds.h"
#include "balancer/internal/construct.h"
#include "balancer/internal/exact.h"
#include "balancer/internal/improve.h"
#include "balancer/internal/partition.h"
#include "balancer/internal/ranks.h"
#include "balancer/internal/validate.h"

namespace isocost {
namespace {

constexpr double kProofTolerance = 1e-9;

bool is_capped(const BalanceProblem& problem) {
  return problem.microbatch_bytes > 0 && !problem.bytes.empty();
}

// [bins], empty where all are 1: every rank's microbatches run at its speed.
std::vector<double> bin_speeds(const BalanceProblem& problem) {
  std::vector<double> speeds;
  for (const double speed : problem.rank_speeds) {
    speeds.insert(speeds.end(), problem.microbatches, speed);
  }
  return speeds;
}

// Every microbatch a bin of its own. `speeds` is that of bin_speeds, and outlives the partition.
Partition microbatch_partition(const BalanceProblem& problem, const std::vector<double>& speeds) {
  Partition all{.dimensions = problem.dimensions,
                .bins = problem.ranks * problem.microbatches,
                .costs = problem.costs,
                .speeds = speeds};
  if (is_capped(problem)) {
    all.bytes = problem.bytes;
    all.bytes_cap = problem.microbatch_bytes;
  }
  return all;
}

double objective_of(const BalanceProblem& problem, const Bins& bins) {
  if (problem.objective == Objective::kLargestMicrobatch) {
    return makespan_of(microbatch_partition(problem, bin_speeds(problem)), bins);
  }
  const std::vector<double> totals = item_totals(problem);
  double largest = 0;
  for (std::size_t rank = 0; rank < problem.ranks; ++rank) {
    std::vector<std::uint32_t> items;
    for (std::size_t m = 0; m < problem.microbatches; ++m) {
      const auto& bin = bins[rank * problem.microbatches + m];
      items.insert(items.end(), bin.begin(), bin.end());
    }
    std::sort(items.begin(), items.end());
    double load = 0;
    for (const std::uint32_t item : items) load += totals[item];
    largest = std::max(largest, problem.speed_of(rank) * load);
  }
  return largest;
}

Bins dealt_bins(const BalanceProblem& problem) {
  Bins bins(problem.ranks * problem.microbatches);
  for (std::size_t rank = 0; rank < problem.ranks; ++rank) {
    const std::size_t count = (problem.items() - rank - 1) / problem.ranks + 1;
    for (std::size_t m = 0; m < problem.microbatches; ++m) {
      auto& bin = bins[rank * problem.microbatches + m];
      const std::size_t end = (m + 1) * count / problem.microbatches;
      for (std::size_t i = m * count / problem.microbatches; i < end; ++i) {
        bin.push_back(static_cast<std::uint32_t>(rank + i * problem.ranks));
      }
    }
  }
  return bins;
}

BalanceResult describe(const BalanceProblem& problem, Bins bins, double bound) {
  BalanceResult result;
  result.makespan = objective_of(problem, bins);
  result.bins = std::move(bins);
  result.lower_bound = bound;
  result.optimal = result.makespan <= bound * (1 + kProofTolerance);
  return result;
}

std::optional<Bins> plan_heuristically(const BalanceProblem& problem, const BalanceOptions& options,
                                       double bound) {
  if (problem.objective == Objective::kSlowestRank) return plan_ranks(problem, options);
  const std::vector<double> speeds = bin_speeds(problem);
  const Partition all = microbatch_partition(problem, speeds);
  auto bins = construct_bins(all);
  if (!bins) return std::nullopt;
  improve_bins(all, improve_limits(bound, options.enough_gap, options.improvement_rounds, all.bins),
               *bins);
  return bins;
}

// Exact solving of a small problem. A plan that it finds replaces `plan`; true where the tree was
// searched to its end.
bool finish_exactly(const BalanceProblem& problem, const BalanceOptions& options,
                    std::optional<Bins>& plan) {
  const std::vector<double> totals = item_totals(problem);
  const std::vector<double> speeds = bin_speeds(problem);
  Partition model = microbatch_partition(problem, speeds);
  ExactLimits limits{.nodes = options.exact_nodes};
  if (plan) limits.below = objective_of(problem, *plan);
  if (problem.objective == Objective::kSlowestRank) {
    model.dimensions = 1;
    model.costs = totals;
    limits.bins_per_rank = problem.microbatches;
  }
  ExactAnswer answer = solve_exactly(model, limits);
  if (answer.bins && (!plan || objective_of(problem, *answer.bins) < limits.below)) {
    plan = std::move(answer.bins);
  }
  return answer.finished;
}

// How loaders deal today is a plan too: the answer is never worse.
void consider_dealt(const BalanceProblem& problem, std::optional<Bins>& plan) {
  Bins dealt = dealt_bins(problem);
  if (!is_feasible(microbatch_partition(problem, {}), dealt)) return;
  if (!plan || objective_of(problem, dealt) < objective_of(problem, *plan)) plan = std::move(dealt);
}

}  // namespace

Result<BalanceResult> deal_in_order(const BalanceProblem& problem) {
  ISOCOST_TRY(validate(problem));
  return describe(problem, dealt_bins(problem), lower_bound(problem));
}

Result<BalanceResult> balance(const BalanceProblem& problem, const BalanceOptions& options) {
  ISOCOST_TRY(validate(problem));
  ISOCOST_TRY(check_cap(problem));
  const double bound = lower_bound(problem);
  std::optional<Bins> plan = plan_heuristically(problem, options, bound);
  consider_dealt(problem, plan);
  const bool proved = plan && objective_of(problem, *plan) <= bound * (1 + kProofTolerance);
  const bool small = problem.items() <= options.exact_items;
  const bool finished = small && !proved && finish_exactly(problem, options, plan);
  if (!plan) return no_packing(problem);
  BalanceResult result = describe(problem, *std::move(plan), bound);
  if (finished) {
    result.optimal = true;
    result.lower_bound = result.makespan;
  }
  return result;
}

double lower_bound(const BalanceProblem& problem) {
  if (problem.items() == 0) return 0;
  if (problem.objective == Objective::kLargestMicrobatch) {
    const std::vector<double> speeds = bin_speeds(problem);
    return partition_bound(microbatch_partition(problem, speeds));
  }
  const std::vector<double> totals = item_totals(problem);
  return partition_bound(rank_partition(problem, totals));
}

}  // namespace isocost
