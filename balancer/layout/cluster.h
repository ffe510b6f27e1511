#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace isocost {

/// The machines of a job. Rates are per rank and direction.
struct Cluster {
  std::int64_t gpu_memory = 80 * kGiB;
  std::size_t gpus_per_node = 8;
  double node_bytes_per_s = 300e9;      ///< Between ranks of a node (NVLink of an A100).
  double network_bytes_per_s = 12.5e9;  ///< Between nodes: 800 Gb/s per node of eight ranks.
  double latency_s = 10e-6;

  /// Parses "node=300GB/s,network=12.5GB/s,latency=10us,gpus-per-node=8". Parts that are left out
  /// keep their defaults. Errors: kInvalidArgument naming the part.
  static Result<Cluster> parse_interconnect(std::string_view text);
};

}  // namespace isocost
