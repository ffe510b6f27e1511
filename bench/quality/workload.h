#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/random.h"
#include "base/result.h"

namespace isocost {

/// The loads of one sample of a trace.
struct TraceSample {
  double encoder_patches = 0;
  double llm_tokens = 0;
};

/// A named set of traces, with the weights by which samples are drawn from them.
struct TraceMixture {
  std::string name;
  std::vector<std::vector<TraceSample>> traces;
  std::vector<std::uint64_t> weights;
};

/// Loads the traces of a mixture: "mixed" is documents, videos, photos and speech at 2:2:1:1; any
/// other name is one trace. Errors: kNotFound; kCorrupt naming file and line.
Result<TraceMixture> load_mixture(const std::string& name, const std::filesystem::path& folder);

/// Draws a trace by weight, then a row of it uniformly, with replacement.
TraceSample draw(const TraceMixture& mixture, Random& random);

/// Draws a problem of `items` samples: vision seconds (913 MFLOP per patch), LLM seconds (13.05
/// GFLOP per token and 200,704 FLOP per token squared), and bytes. For kLargestMicrobatch, each of
/// the three dimensions is scaled to a mean of one per microbatch. For kSlowestRank, the two
/// dimensions of seconds share one scale, so that a microbatch takes one second on average. The
/// memory cap is `cap` times the mean bytes of a microbatch, or the largest sample if that is more;
/// 0: no cap. With a cap, bytes are not a dimension, because balancing them would keep the cap
/// anyway.
BalanceProblem draw_problem(const TraceMixture& mixture, Objective objective, std::size_t items,
                            std::size_t ranks, std::size_t microbatches, double cap,
                            std::uint64_t seed);

}  // namespace isocost
