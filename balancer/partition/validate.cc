#include "balancer/partition/validate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "balancer/partition/internal/partition.h"
#include "base/checked.h"
#include "base/counted.h"

namespace isocost {
namespace {

constexpr std::size_t kMaxItems = std::size_t{1} << 30;
constexpr double kMinSlowdown = 0.01;
constexpr double kMaxSlowdown = 100;

Error invalid(const std::string& what) { return {ErrorCode::kInvalidArgument, "balance: " + what}; }

Status validate_counts(const BalanceProblem& problem) {
  if (problem.dimensions < 1 || problem.dimensions > kMaxLoadDimensions) {
    return invalid("dimensions is " + std::to_string(problem.dimensions) + ", allowed are 1 to 8");
  }
  if (problem.costs.size() % problem.dimensions != 0) {
    return invalid("costs holds " + counted(problem.costs.size(), "number") +
                   ", which is no multiple of the dimensions");
  }
  if (problem.items() > kMaxItems || problem.ranks > kMaxItems ||
      problem.microbatches > kMaxItems) {
    return invalid("more than 2^30 items, ranks or microbatches");
  }
  if (problem.ranks < 1 || problem.microbatches < 1) {
    return invalid("ranks and microbatches must be at least 1");
  }
  const std::size_t bins = problem.ranks * problem.microbatches;
  if (problem.items() < bins) {
    return invalid(counted(problem.items(), "item") + " cannot fill " +
                   counted(bins, "microbatch") + " with one each");
  }
  return {};
}

Status validate_costs(const BalanceProblem& problem) {
  double sum = 0;
  for (std::size_t i = 0; i < problem.costs.size(); ++i) {
    const double cost = problem.costs[i];
    if (!std::isfinite(cost) || cost < 0) {
      return invalid("item " + std::to_string(i / problem.dimensions) + ": cost " +
                     std::to_string(i % problem.dimensions) + " is " + std::to_string(cost) +
                     "; costs must be finite and >= 0");
    }
    sum += cost;
  }
  if (!std::isfinite(4 * kMaxSlowdown * sum)) return invalid("the sum of the costs is not finite");
  return {};
}

Status validate_slowdowns(const BalanceProblem& problem) {
  if (problem.rank_slowdowns.empty()) return {};
  if (problem.rank_slowdowns.size() != problem.ranks) {
    return invalid("rank_slowdowns holds " + counted(problem.rank_slowdowns.size(), "number") +
                   " for " + counted(problem.ranks, "rank"));
  }
  for (std::size_t rank = 0; rank < problem.ranks; ++rank) {
    const double slowdown = problem.rank_slowdowns[rank];
    if (!(slowdown >= kMinSlowdown && slowdown <= kMaxSlowdown)) {
      return invalid("rank " + std::to_string(rank) + ": rank_slowdowns is " +
                     std::to_string(slowdown) +
                     ", allowed are 0.01 to 100 (1.2 is a rank that takes 20 % longer)");
    }
  }
  return {};
}

Status validate_sizes(const BalanceProblem& problem) {
  const std::size_t resources = problem.resources.size();
  if (resources > kMaxResources) {
    return invalid(counted(resources, "resource") + " are capped, at most " +
                   std::to_string(kMaxResources) + " can be");
  }
  if (problem.sizes.size() != problem.items() * resources) {
    return invalid("sizes holds " + counted(problem.sizes.size(), "number") + " for " +
                   counted(problem.items(), "item") + " and " + counted(resources, "resource"));
  }
  for (std::size_t r = 0; r < resources; ++r) {
    const std::string& name = problem.resources[r].name;
    if (problem.resources[r].cap < 0) return invalid("the cap on " + name + " is negative");
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < problem.items(); ++i) {
      if (problem.size(i, r) < 0) {
        return invalid("item " + std::to_string(i) + ": a negative number of " + name);
      }
      const auto next = checked_sum(sum, problem.size(i, r));
      if (!next) return invalid("the sum of the " + name + " exceeds 63 bits");
      sum = *next;
    }
  }
  return {};
}

std::int64_t sum_of(const BalanceProblem& problem, std::size_t resource) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < problem.items(); ++i) sum += problem.size(i, resource);
  return sum;
}

// Returns the resource of which the items hold the most, compared with what all microbatches may
// hold.
std::size_t scarcest(const BalanceProblem& problem) {
  const auto share = [&problem](std::size_t r) {
    const auto cap = static_cast<double>(std::max<std::int64_t>(problem.resources[r].cap, 1));
    return static_cast<double>(sum_of(problem, r)) / cap;
  };
  std::size_t most = 0;
  for (std::size_t r = 1; r < problem.resources.size(); ++r) {
    if (share(r) > share(most)) most = r;
  }
  return most;
}

}  // namespace

Status validate(const BalanceProblem& problem) {
  ISOCOST_TRY(validate_counts(problem));
  ISOCOST_TRY(validate_costs(problem));
  ISOCOST_TRY(validate_slowdowns(problem));
  return validate_sizes(problem);
}

Status check_caps(const BalanceProblem& problem) {
  for (std::size_t i = 0; i < problem.items(); ++i) {
    for (std::size_t r = 0; r < problem.resources.size(); ++r) {
      const Resource& resource = problem.resources[r];
      if (problem.size(i, r) <= resource.cap) continue;
      return Error(ErrorCode::kResourceExhausted, "balance: item " + std::to_string(i) + " has " +
                                                      std::to_string(problem.size(i, r)) + " " +
                                                      resource.name + ", a microbatch may hold " +
                                                      std::to_string(resource.cap) +
                                                      ": raise the cap or leave the sample out");
    }
  }
  return {};
}

Error no_packing(const BalanceProblem& problem) {
  const std::size_t r = scarcest(problem);
  const Resource& resource = problem.resources[r];
  std::size_t largest = 0;
  for (std::size_t i = 1; i < problem.items(); ++i) {
    if (problem.size(i, r) > problem.size(largest, r)) largest = i;
  }
  return {ErrorCode::kResourceExhausted,
          "balance: no packing found of " + std::to_string(sum_of(problem, r)) + " " +
              resource.name + " into " +
              counted(problem.ranks * problem.microbatches, "microbatch") + " of at most " +
              std::to_string(resource.cap) + " (the largest, item " + std::to_string(largest) +
              ", has " + std::to_string(problem.size(largest, r)) +
              "): raise the cap or use more microbatches"};
}

}  // namespace isocost
