#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// The quantity that a plan minimises. A load is measured in seconds on the rank that runs it: the
/// sum of costs times the rank's slowdown.
enum class Objective : std::uint8_t {
  /// The largest load of any microbatch in any dimension. For modules that run side by side
  /// (pipelines).
  kLargestMicrobatch,
  /// First the load of the slowest rank, summed over its microbatches and dimensions, then the
  /// largest microbatch. For modules that run one after the other on ranks that synchronise at the
  /// end of the step.
  kSlowestRank,
};

/// The most resources that a problem may cap.
inline constexpr std::size_t kMaxResources = 4;

/// A resource. Each item holds a whole amount of it, and a microbatch at most `cap`.
struct Resource {
  std::string name;      ///< Name of the unit in messages: "bytes".
  std::int64_t cap = 0;  ///< Most units of a microbatch, >= 0.
};

/// N items with K-dimensional costs that are divided into ranks × microbatches bins. Every bin
/// receives at least one item, so N >= ranks × microbatches.
struct BalanceProblem {
  std::size_t dimensions = 1;  ///< K, from 1 to 8.
  /// [N × K] row-major, finite, >= 0. All dimensions share one scale (seconds), because they are
  /// compared with each other.
  std::vector<double> costs = {};
  /// [N × R] row-major, >= 0: amount of each resource that each item holds.
  std::vector<std::int64_t> sizes = {};
  std::vector<Resource> resources = {};  ///< [R], at most kMaxResources; empty: no caps.
  std::size_t ranks = 1;
  std::size_t microbatches = 1;  ///< Microbatches per rank.
  /// [ranks], the factor on each rank's seconds, 0.01 to 100: a rank of slowdown 1.2 takes 20 %
  /// longer. Empty: all 1.
  std::vector<double> rank_slowdowns = {};
  Objective objective = Objective::kLargestMicrobatch;

  std::size_t items() const { return dimensions == 0 ? 0 : costs.size() / dimensions; }
  std::int64_t size(std::size_t item, std::size_t resource) const {
    return sizes[item * resources.size() + resource];
  }
  double slowdown_of(std::size_t rank) const {
    return rank_slowdowns.empty() ? 1 : rank_slowdowns[rank];
  }
};

/// Budgets of a search. All are counts, so one problem has one plan on every machine.
struct BalanceOptions {
  double enough_gap = 2e-4;  ///< The local search stops this close to the bound (relative).
  /// Budget of the local search: pairs of bins evaluated, per bin.
  std::int64_t improvement_rounds = 1200;
  /// Problems of at most this many items are solved exactly: by enumeration, then by GLPK
  /// (in builds with it).
  std::size_t exact_items = 12;
  /// Branch-and-bound nodes that GLPK may spend on an exact solve. Enumeration may spend 100 times
  /// as many.
  std::int64_t exact_nodes = 20'000;
};

/// The reason why the makespan cannot be smaller.
enum class Limit : std::uint8_t {
  kTotal,        ///< The total work is spread evenly; only less work would help.
  kLargestItem,  ///< The largest item needs this much time in any bin.
  kPigeonhole,   ///< There are more large items than bins, so some share a bin.
  kTiles,        ///< Loads are whole multiples of a tile, and some bin holds one more.
  kCounts,       ///< Every bin must hold a number of items.
  kCap,          ///< A cap keeps items in different bins.
  kTradeOff,     ///< Two dimensions together are a stronger bound than either alone.
  kExact,        ///< No bound: search ruled out every better plan.
};
/// Returns "total", "largest-item", "pigeonhole", "tiles", "counts", "cap", "trade-off" or "exact".
std::string_view limit_name(Limit limit);

struct BalanceResult {
  /// bins[rank * microbatches + microbatch] lists items in ascending order.
  std::vector<std::vector<std::uint32_t>> bins;
  double makespan = 0;          ///< Value of the objective.
  double lower_bound = 0;       ///< A lower bound on any plan. Equals the makespan if `optimal`.
  Limit limit = Limit::kTotal;  ///< The bound that gives lower_bound.
  /// The plan is proved optimal: either the makespan equals the bound, up to the rounding of the
  /// bound (3e-12 of it, plus 5e-16 for each item), or search ruled out every plan that is smaller
  /// by more than the rounding of sums (1e-14).
  bool optimal = false;
  double gap() const { return lower_bound > 0 ? makespan / lower_bound - 1 : 0; }
};

/// Deals items in order, as data loaders do without balancing: item i goes to rank i mod ranks, and
/// each rank's items are cut into `microbatches` runs of (nearly) equal count. Ignores costs and
/// the caps; the lower bound is that of the problem without caps. Pure and deterministic.
/// Errors: kInvalidArgument, as for balance().
Result<BalanceResult> deal_in_order(const BalanceProblem& problem);

/// Returns the plan of longest processing time first (LPT): takes items by decreasing largest cost
/// and puts each into the bin where the largest load stays smallest, within the caps. For
/// kSlowestRank, items are first assigned to ranks by their total cost, then to each rank's
/// microbatches. If LPT finds no room for an item under the caps, items are packed by size instead.
/// Pure and deterministic. Errors: those of balance().
Result<BalanceResult> lpt(const BalanceProblem& problem);

/// Returns the division that LPT makes by the number of tokens of each item, as a user without a
/// cost model could do: costs, slowdowns and caps do not enter. Its makespan and bound are in
/// tokens. Errors: those of balance().
Result<BalanceResult> lpt_by_tokens(const BalanceProblem& problem, std::vector<double> tokens);

/// Returns the makespan and the lower bound of a given division, which was made by another measure
/// than the problem's costs. Ignores the caps, as deal_in_order() does. Pure. Errors:
/// kInvalidArgument for a malformed problem, or if `bins` does not hold each item exactly once in
/// ranks × microbatches bins.
Result<BalanceResult> evaluate(const BalanceProblem& problem,
                               std::vector<std::vector<std::uint32_t>> bins);

/// Divides the items so that the objective is small: bounds, LPT, local search, and an exact solve
/// of small problems. Never worse than deal_in_order() if that keeps the caps. Pure and
/// deterministic; runs on the calling thread. Errors: kInvalidArgument for a malformed problem
/// (negative or non-finite costs, fewer items than bins); kResourceExhausted, naming the item and
/// the resource, if an item exceeds a cap or no packing under the caps is found.
Result<BalanceResult> balance(const BalanceProblem& problem, const BalanceOptions& options);

struct LowerBound {
  double value = 0;
  Limit limit = Limit::kTotal;
};
/// Returns the greatest of several lower bounds on the objective, with its kind. Infinite if it is
/// proved that no plan keeps the caps. The enumerators of Limit describe the bounds.
LowerBound find_lower_bound(const BalanceProblem& problem);
inline double lower_bound(const BalanceProblem& problem) { return find_lower_bound(problem).value; }

}  // namespace isocost
