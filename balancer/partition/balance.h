#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// What "slowest" means, and so what is minimised. Loads are seconds on the rank that runs them:
/// costs times its `rank_slowdowns`.
enum class Objective : std::uint8_t {
  /// The largest load of any microbatch in any dimension: modules run side by side (a pipeline).
  kLargestMicrobatch,
  /// First the largest rank, where a rank's load is the sum over its microbatches and dimensions
  /// (modules run one after the other, ranks meet at the end of the step), then the largest
  /// microbatch.
  kSlowestRank,
};

/// N items with K-dimensional costs to be laid into ranks × microbatches bins.
struct BalanceProblem {
  std::size_t dimensions = 1;  ///< K, 1 to 8.
  std::vector<double> costs =
      {};  ///< [N × K] row-major, finite, >= 0; scaled so that dimensions compare (seconds).
  std::vector<std::int64_t> bytes = {};  ///< [N], or empty: no memory cap.
  std::int64_t microbatch_bytes = 0;     ///< Cap on the bytes of a microbatch; 0: none.
  std::size_t ranks = 1;
  std::size_t microbatches =
      1;  ///< Per rank. Every bin gets at least one item: N >= ranks × microbatches.
  std::vector<double> rank_slowdowns =
      {};  ///< [ranks], what a rank's seconds are multiplied by, 0.01 to 100: 1.2 is a rank that
           ///< takes 20 % longer. Empty: all 1.
  Objective objective = Objective::kLargestMicrobatch;

  std::size_t items() const { return dimensions == 0 ? 0 : costs.size() / dimensions; }
  double slowdown_of(std::size_t rank) const {
    return rank_slowdowns.empty() ? 1 : rank_slowdowns[rank];
  }
};

struct BalanceOptions {
  double enough_gap = 2e-4;  ///< The local search stops this near the bound.
  std::int64_t improvement_rounds =
      1200;  ///< Budget of the local search, in looks at a pair of bins per bin: a count, so that
             ///< one input gives one plan.
  std::size_t exact_items = 12;  ///< Problems of at most this many items are solved exactly: by
                                 ///< enumeration, then by GLPK.
  std::int64_t exact_nodes = 20'000;  ///< Branch-and-bound nodes of GLPK granted to an exact solve;
                                      ///< a hundred times as many of enumeration.
};

/// Why the makespan cannot be smaller: the bound that binds.
enum class Limit : std::uint8_t {
  kTotal,        ///< All the work together, evenly spread: nothing but less work would help.
  kLargestItem,  ///< One item alone.
  kPigeonhole,   ///< More large items than bins: some must share one.
  kTiles,        ///< Loads are whole multiples of a tile, and some bin holds one more.
  kCounts,       ///< How many items every bin must hold at least.
  kMemory,       ///< The cap on bytes: items that cannot lie together.
  kTradeOff,     ///< Two dimensions together, where neither alone says as much.
  kExact,        ///< No bound: every other plan was ruled out by search.
};
/// "total", "dominant sample", "pigeonhole", "tiles", "counts", "memory", "trade-off", "exact".
std::string_view limit_name(Limit limit);

struct BalanceResult {
  /// bins[rank * microbatches + microbatch] lists items in ascending order.
  std::vector<std::vector<std::uint32_t>> bins;
  double makespan = 0;          ///< The objective's value.
  double lower_bound = 0;       ///< No plan can be below it; the makespan itself where `optimal`.
  Limit limit = Limit::kTotal;  ///< What lower_bound is due to.
  bool optimal = false;  ///< Proved: the makespan equals the bound, which is rounded down (3e-12 of
                         ///< it, and 5e-16 for each item), or search ruled out every plan that is
                         ///< smaller by more than the rounding of sums (1e-14).
  double gap() const { return lower_bound > 0 ? makespan / lower_bound - 1 : 0; }
};

/// Deals items in order, as loaders do today: item i to rank i mod D, each rank's items cut into M
/// runs of (nearly) equal count. Ignores costs and the memory cap.
Result<BalanceResult> deal_in_order(const BalanceProblem& problem);

/// Balances: bounds, vector greedy, moves and swaps, exact sub-problems. Pure and deterministic;
/// one thread. Errors: kInvalidArgument (negative or non-finite costs, fewer items than bins),
/// kResourceExhausted (an item over the byte cap, or no feasible packing found), naming the item.
Result<BalanceResult> balance(const BalanceProblem& problem, const BalanceOptions& options);

struct LowerBound {
  double value = 0;
  Limit limit = Limit::kTotal;
};
/// The greatest of several bounds on the objective, and which one it is: mean load, largest item,
/// pigeonhole (k+1 of the k·bins+1 largest items share a bin, and what else it must hold),
/// granularity (loads that are whole multiples of a tile), memory (items that do not fit beside the
/// largest share the bins that are left), two dimensions weighed together. Infinite where it
/// is certain that no plan keeps the cap.
LowerBound find_lower_bound(const BalanceProblem& problem);
inline double lower_bound(const BalanceProblem& problem) { return find_lower_bound(problem).value; }

}  // namespace isocost
