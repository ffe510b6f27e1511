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
  if (problem.dimensions < 1 || problem.dimensions > kMaxDimensions) {
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

Status validate_bytes(const BalanceProblem& problem) {
  if (problem.microbatch_bytes < 0) return invalid("microbatch_bytes is negative");
  if (problem.bytes.empty()) return {};
  if (problem.bytes.size() != problem.items()) {
    return invalid("bytes holds " + counted(problem.bytes.size(), "number") + " for " +
                   counted(problem.items(), "item"));
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < problem.bytes.size(); ++i) {
    if (problem.bytes[i] < 0) return invalid("item " + std::to_string(i) + ": bytes are negative");
    const auto next = checked_sum(sum, problem.bytes[i]);
    if (!next) return invalid("the sum of the bytes exceeds 63 bits");
    sum = *next;
  }
  return {};
}

}  // namespace

Status validate(const BalanceProblem& problem) {
  ISOCOST_TRY(validate_counts(problem));
  ISOCOST_TRY(validate_costs(problem));
  ISOCOST_TRY(validate_slowdowns(problem));
  return validate_bytes(problem);
}

Status check_cap(const BalanceProblem& problem) {
  if (problem.microbatch_bytes == 0) return {};
  for (std::size_t i = 0; i < problem.bytes.size(); ++i) {
    if (problem.bytes[i] > problem.microbatch_bytes) {
      return Error(ErrorCode::kResourceExhausted, "balance: item " + std::to_string(i) + " has " +
                                                      std::to_string(problem.bytes[i]) +
                                                      " bytes, a microbatch may hold " +
                                                      std::to_string(problem.microbatch_bytes) +
                                                      ": raise the cap or leave the sample out");
    }
  }
  return {};
}

Error no_packing(const BalanceProblem& problem) {
  const auto largest = std::max_element(problem.bytes.begin(), problem.bytes.end());
  std::int64_t sum = 0;
  for (const std::int64_t bytes : problem.bytes) sum += bytes;
  return {ErrorCode::kResourceExhausted,
          "balance: no packing found of " + std::to_string(sum) + " bytes into " +
              counted(problem.ranks * problem.microbatches, "microbatch") + " of at most " +
              std::to_string(problem.microbatch_bytes) + " bytes (the largest, item " +
              std::to_string(largest - problem.bytes.begin()) + ", has " +
              std::to_string(*largest) + "): raise the cap or use more microbatches"};
}

}  // namespace isocost
