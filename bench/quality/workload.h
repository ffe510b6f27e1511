#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/random.h"
#include "base/result.h"

namespace isocost {

/// A sample of a trace, as the models of the benchmarks see it.
struct TraceSample {
  double encoder_patches = 0;
  double llm_tokens = 0;
};

/// Traces by name, with the weights by which samples are drawn from them.
struct Mixture {
  std::string name;
  std::vector<std::vector<TraceSample>> traces;
  std::vector<std::uint64_t> weights;
};

/// "documents": that trace alone. "mixed": documents, videos, photos and speech 2:2:1:1.
/// Errors: kNotFound, kCorrupt naming file and line.
Result<Mixture> load_mixture(const std::string& name, const std::filesystem::path& folder);

/// A trace by weight, then any of its rows.
TraceSample draw(const Mixture& mixture, Random& random);

/// Draws `items` samples: vision seconds (913 MFLOP a patch), LLM seconds (13.05 GFLOP a token and
/// 200,704 FLOP a token squared), bytes. For kLargestMicrobatch each of the three dimensions is
/// scaled to a mean of one a microbatch; for kSlowestRank the two of seconds share one scale, by
/// which a microbatch takes one second on average. Where there is a cap, bytes are no dimension, or
/// balancing them would keep the cap unasked. `cap` times the mean bytes of a microbatch (or
/// the largest sample, where that is more) is the memory cap; 0: none.
BalanceProblem draw_problem(const Mixture& mixture, Objective objective, std::size_t items,
                            std::size_t ranks, std::size_t microbatches, double cap,
                            std::uint64_t seed);

}  // namespace isocost
