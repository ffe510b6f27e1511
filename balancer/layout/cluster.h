#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace isocost {

/// Collectives that run at the same time, each over every `stride`-th rank of a block of ranks.
struct RankGroups {
  std::size_t members = 1;
  std::size_t stride = 1;
  std::size_t blocks = 1;  ///< One after another, from a machine's first rank on.

  std::size_t block_ranks() const { return members * stride; }
};

/// The machines of a job. Rates are per rank and direction.
struct Cluster {
  std::int64_t gpu_memory = 80 * kGiB;
  std::size_t gpus_per_node = 8;
  double node_bytes_per_s = 300e9;      ///< Between ranks of a node (NVLink of an A100).
  double network_bytes_per_s = 12.5e9;  ///< Between nodes: 800 Gb/s per node of eight ranks.
  double latency_s = 10e-6;

  /// Returns the bytes per second at which a ring passes each rank of the slowest group. Each rank
  /// has a link to other machines, and the members on one machine use theirs together. So a ring is
  /// as fast as the links of the machine with the fewest of its members.
  double ring_bytes_per_s(const RankGroups& groups) const;

  /// Parses "node=300GB/s,network=12.5GB/s,latency=10us,gpus-per-node=8". Parts that are left out
  /// keep their defaults. Errors: kInvalidArgument naming the part.
  static Result<Cluster> parse_interconnect(std::string_view text);
};

}  // namespace isocost
