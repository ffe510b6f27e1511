#pragma once

#include "balancer/layout/cluster.h"
#include "balancer/layout/layout.h"
#include "costmodel/architecture.h"

namespace isocost {

/// The cost of a module's sharded weights for a rank: its microbatches gather them, layer by layer,
/// and scatter their gradients. All zero if no replica shares its weights.
struct Sharding {
  double microbatch_s = 0;  ///< Transfers of a microbatch, which overlap with computing.
  double exposed_s = 0;     ///< The part of them that nothing overlaps with.
  double layer_bytes = 0;   ///< Weights and gradients of layers that are whole at a time.
  double whole_bytes = 0;   ///< Those of embeddings and output head, until the step ends.
};

/// Returns the cost for a module of one stage with `parameters`, of which `trained` are trained
/// (Zhao et al. 2023, PyTorch FSDP, sections 3 and 4). Weights are gathered for the forward pass
/// and again for the backward pass, since they are dropped in between, and gradients are scattered
/// after it. While a layer computes, the next one is gathered, so the first gather and the last
/// scatter of a microbatch are exposed. Embeddings and output head are gathered once a step. The
/// ring moves (n - 1) / n of the bytes. Whole gradients are bf16, and fp32 while they are
/// scattered.
Sharding sharding_of(const Cluster& cluster, const Architecture& shape, double parameters,
                     double trained, bool has_backward, const ModuleDegrees& degrees);

}  // namespace isocost
