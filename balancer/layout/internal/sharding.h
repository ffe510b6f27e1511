#pragma once

#include "balancer/layout/cluster.h"
#include "balancer/layout/layout.h"
#include "balancer/pipeline/pipeline_model.h"
#include "costmodel/architecture.h"

namespace isocost {

/// The cost of a module's sharded weights for a rank: its microbatches gather them, layer by layer,
/// and scatter their gradients. All zero if no replica shares its weights.
struct Sharding {
  PassTransfers transfers = {};
  double layer_bytes = 0;  ///< Weights and gradients of layers that are whole at a time.
  double kept_bytes = 0;   ///< Weights that stay gathered from a forward to its backward pass.
  double whole_bytes = 0;  ///< Those of embeddings and output head.
};

/// A module of one stage.
struct ShardedModule {
  const Architecture& shape;
  double parameters = 0;
  double trained = 0;  ///< Those of them that are trained.
  bool has_backward = true;
  bool reshard = true;  ///< See ModuleTraining.
};

/// Returns the cost for a module (Zhao et al. 2023, PyTorch FSDP, sections 3 and 4). Weights are
/// gathered for the forward pass, and gradients are scattered after the backward pass. If weights
/// are dropped in between, they are gathered again for the backward pass (reshard_after_forward of
/// fully_shard, docs of PyTorch 2.15); else those of all layers stay whole until it has run, and
/// each microbatch gathers them once. While a layer computes, the next one is gathered, so the
/// first gather and the last scatter of a microbatch are exposed. Embeddings and output head are
/// one group, which stays gathered: it is gathered before all layers and scattered after them, and
/// nothing overlaps with that. The ring moves (n - 1) / n of the bytes. Whole gradients are bf16,
/// and fp32 while they are scattered.
Sharding sharding_of(const Cluster& cluster, const ShardedModule& module,
                     const ModuleDegrees& degrees);

}  // namespace isocost
