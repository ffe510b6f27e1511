#include "balancer/partition/internal/exact.h"

#include <algorithm>
#include <utility>

#include "balancer/partition/internal/enumeration.h"
#ifdef ISOCOST_WITH_GLPK
#include "balancer/partition/internal/assignment_ilp.h"
#endif

namespace isocost {
namespace {

// Enumeration nodes that take as long as one node of the ILP, which is a linear program.
constexpr std::int64_t kNodesPerIlpNode = 100;
constexpr std::int64_t kMostNodes = std::int64_t{1} << 40;

#ifdef ISOCOST_WITH_GLPK
constexpr std::int64_t kEnumerationNodes = kNodesPerIlpNode;

// Solves with the ILP what enumeration has not decided.
ExactAnswer solve_rest(const Partition& problem, const ExactLimits& limits, ExactAnswer answer) {
  ExactLimits left = limits;
  if (answer.bins) left.below = grouped_makespan(problem, limits.bins_per_rank, *answer.bins);
  ExactAnswer second = solve_assignment_ilp(problem, left);
  if (!second.bins) second.bins = std::move(answer.bins);
  return second;
}
#else
// Without the ILP, enumeration has the time of both.
constexpr std::int64_t kEnumerationNodes = 2 * kNodesPerIlpNode;

ExactAnswer solve_rest(const Partition&, const ExactLimits&, ExactAnswer answer) { return answer; }
#endif

}  // namespace

double grouped_makespan(const Partition& problem, std::size_t bins_per_rank, const Bins& bins) {
  if (bins_per_rank == 1) return makespan_of(problem, bins);
  double largest = 0;
  for (std::size_t first = 0; first < bins.size(); first += bins_per_rank) {
    std::vector<std::uint32_t> items;
    for (std::size_t b = first; b < first + bins_per_rank; ++b) {
      items.insert(items.end(), bins[b].begin(), bins[b].end());
    }
    std::sort(items.begin(), items.end());
    for (std::size_t k = 0; k < problem.dimensions; ++k) {
      double load = 0;
      for (const std::uint32_t item : items) load += problem.cost(item)[k];
      largest = std::max(largest, problem.slowdown(first) * load);
    }
  }
  return largest;
}

ExactAnswer solve_exactly(const Partition& problem, const ExactLimits& limits) {
  const std::int64_t nodes =
      kEnumerationNodes * std::clamp<std::int64_t>(limits.nodes, 0, kMostNodes);
  ExactAnswer answer = enumerate_bins(problem, limits, nodes);
  if (answer.finished) return answer;
  return solve_rest(problem, limits, std::move(answer));
}

}  // namespace isocost
