#include "balancer/partition/balance.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "balancer/partition/internal/bounds.h"
#include "balancer/partition/internal/construct.h"
#include "balancer/partition/internal/exact.h"
#include "balancer/partition/internal/local_search.h"
#include "balancer/partition/internal/partition.h"
#include "balancer/partition/internal/rank_plan.h"
#include "balancer/partition/validate.h"
#include "base/counted.h"

namespace isocost {
namespace {

// Bounds are rounded down by at most this fraction, plus a fraction for each item.
constexpr double kBoundRounding = 3e-12;
constexpr double kBoundRoundingPerItem = 5e-16;

// Returns the slowdown of each bin [bins], or nothing if all are 1: every rank's microbatches run
// at its slowdown.
std::vector<double> bin_slowdowns(const BalanceProblem& problem) {
  std::vector<double> slowdowns;
  for (const double slowdown : problem.rank_slowdowns) {
    slowdowns.insert(slowdowns.end(), problem.microbatches, slowdown);
  }
  return slowdowns;
}

// Returns the problem with one bin per microbatch. `slowdowns` comes from bin_slowdowns and must
// outlive the partition.
Partition microbatch_partition(const BalanceProblem& problem,
                               const std::vector<double>& slowdowns) {
  Partition all{.dimensions = problem.dimensions,
                .bins = problem.ranks * problem.microbatches,
                .costs = problem.costs,
                .slowdowns = slowdowns};
  add_caps(problem, all);
  return all;
}

double objective_of(const BalanceProblem& problem, const Bins& bins) {
  if (problem.objective == Objective::kLargestMicrobatch) {
    return makespan_of(microbatch_partition(problem, bin_slowdowns(problem)), bins);
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
    largest = std::max(largest, problem.slowdown_of(rank) * load);
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

// Returns whether the makespan equals the bound, up to the rounding of bounds.
bool meets(const BalanceProblem& problem, double makespan, double bound) {
  const auto items = static_cast<double>(problem.items());
  return makespan <= bound * (1 + kBoundRounding + kBoundRoundingPerItem * items);
}

// Returns the inexpensive bounds, which are the target of the search.
LowerBound search_target(const BalanceProblem& problem) {
  if (problem.items() == 0) return {};
  if (problem.objective == Objective::kLargestMicrobatch) {
    const std::vector<double> slowdowns = bin_slowdowns(problem);
    return partition_bound(microbatch_partition(problem, slowdowns));
  }
  const std::vector<double> totals = item_totals(problem);
  return partition_bound(rank_partition(problem, totals));
}

// Raises a bound that is not met, using bounds that take more time to compute.
void strengthen(const BalanceProblem& problem, LowerBound& bound) {
  if (problem.objective != Objective::kLargestMicrobatch || problem.items() == 0) return;
  const std::vector<double> slowdowns = bin_slowdowns(problem);
  const Partition bins = microbatch_partition(problem, slowdowns);
  const auto raise = [&bound](double value, Limit limit) {
    if (value > bound.value) bound = {value, limit};
  };
  raise(crowd_bound(bins), Limit::kPigeonhole);
  raise(capped_slowdown_bound(bins), Limit::kCap);
  if (problem.dimensions > 1) raise(trade_off_bound(bins), Limit::kTradeOff);
}

BalanceResult describe(const BalanceProblem& problem, Bins bins, const LowerBound& bound) {
  BalanceResult result;
  result.makespan = objective_of(problem, bins);
  result.bins = std::move(bins);
  result.lower_bound = bound.value;
  result.limit = bound.limit;
  result.optimal = meets(problem, result.makespan, bound.value);
  if (result.optimal) result.lower_bound = result.makespan;
  return result;
}

std::optional<Bins> plan_heuristically(const BalanceProblem& problem, const BalanceOptions& options,
                                       const LowerBound& bound) {
  if (problem.objective == Objective::kSlowestRank) return plan_ranks(problem, options);
  const std::vector<double> slowdowns = bin_slowdowns(problem);
  const Partition all = microbatch_partition(problem, slowdowns);
  auto bins = construct_bins(all);
  if (!bins) return std::nullopt;
  ImproveLimits limits =
      improve_limits(bound.value, options.enough_gap, options.improvement_rounds, all);
  limits.even_out = bound.limit == Limit::kTiles;
  improve_bins(all, limits, *bins);
  return bins;
}

// Solves a small problem exactly. A better plan replaces `plan`. Returns whether the search tree
// was exhausted.
bool finish_exactly(const BalanceProblem& problem, const BalanceOptions& options,
                    std::optional<Bins>& plan) {
  const std::vector<double> totals = item_totals(problem);
  const std::vector<double> slowdowns = bin_slowdowns(problem);
  Partition model = microbatch_partition(problem, slowdowns);
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

BalanceProblem without_caps(BalanceProblem problem) {
  problem.resources.clear();
  problem.sizes.clear();
  return problem;
}

// Replaces the plan by dealing in order if that is better, so that the result is never worse.
void consider_dealt(const BalanceProblem& problem, std::optional<Bins>& plan) {
  Bins dealt = dealt_bins(problem);
  if (!is_feasible(microbatch_partition(problem, {}), dealt)) return;
  if (!plan || objective_of(problem, dealt) < objective_of(problem, *plan)) plan = std::move(dealt);
}

}  // namespace

std::string_view limit_name(Limit limit) {
  switch (limit) {
    case Limit::kTotal:
      return "total";
    case Limit::kLargestItem:
      return "largest-item";
    case Limit::kPigeonhole:
      return "pigeonhole";
    case Limit::kTiles:
      return "tiles";
    case Limit::kCounts:
      return "counts";
    case Limit::kCap:
      return "cap";
    case Limit::kTradeOff:
      return "trade-off";
    case Limit::kExact:
      return "exact";
  }
  return "total";
}

Result<BalanceResult> deal_in_order(const BalanceProblem& problem) {
  ISOCOST_TRY(validate(problem));
  return describe(problem, dealt_bins(problem), find_lower_bound(without_caps(problem)));
}

Result<BalanceResult> lpt_by_tokens(const BalanceProblem& problem, std::vector<double> tokens) {
  return lpt({.costs = std::move(tokens),
              .ranks = problem.ranks,
              .microbatches = problem.microbatches,
              .objective = problem.objective});
}

Result<BalanceResult> lpt(const BalanceProblem& problem) {
  ISOCOST_TRY(validate(problem));
  ISOCOST_TRY(check_caps(problem));
  const std::vector<double> slowdowns = bin_slowdowns(problem);
  auto plan = problem.objective == Objective::kSlowestRank
                  ? plan_ranks(problem, {.improvement_rounds = 0})
                  : construct_bins(microbatch_partition(problem, slowdowns));
  if (!plan) return no_packing(problem);
  return describe(problem, *std::move(plan), find_lower_bound(problem));
}

Result<BalanceResult> evaluate(const BalanceProblem& problem,
                               std::vector<std::vector<std::uint32_t>> bins) {
  ISOCOST_TRY(validate(problem));
  std::vector<std::uint32_t> items;
  for (const auto& bin : bins) items.insert(items.end(), bin.begin(), bin.end());
  std::sort(items.begin(), items.end());
  bool each_once = items.size() == problem.items();
  for (std::size_t i = 0; each_once && i < items.size(); ++i) each_once = items[i] == i;
  if (!each_once || bins.size() != problem.ranks * problem.microbatches) {
    return Error(ErrorCode::kInvalidArgument,
                 "evaluate: the bins must hold each of " + counted(problem.items(), "item") +
                     " once, in " + counted(problem.ranks * problem.microbatches, "bin"));
  }
  return describe(problem, std::move(bins), find_lower_bound(without_caps(problem)));
}

Result<BalanceResult> balance(const BalanceProblem& problem, const BalanceOptions& options) {
  ISOCOST_TRY(validate(problem));
  ISOCOST_TRY(check_caps(problem));
  LowerBound bound = search_target(problem);
  std::optional<Bins> plan;
  if (std::isfinite(bound.value)) plan = plan_heuristically(problem, options, bound);
  consider_dealt(problem, plan);
  if (plan && !meets(problem, objective_of(problem, *plan), bound.value)) {
    strengthen(problem, bound);
  }
  // An exact solve rounds less than the bounds do, so it decides wherever it is allowed to.
  const bool proved = plan && objective_of(problem, *plan) <= bound.value;
  const bool small = problem.items() <= options.exact_items;
  const bool finished = small && !proved && finish_exactly(problem, options, plan);
  if (!plan) return no_packing(problem);
  BalanceResult result = describe(problem, *std::move(plan), bound);
  if (finished && !result.optimal) {
    result.optimal = true;
    result.lower_bound = result.makespan;
    result.limit = Limit::kExact;
  }
  return result;
}

LowerBound find_lower_bound(const BalanceProblem& problem) {
  LowerBound bound = search_target(problem);
  strengthen(problem, bound);
  return bound;
}

}  // namespace isocost
