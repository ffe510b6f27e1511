#include "balancer/layout/internal/sharding.h"

#include <algorithm>
#include <cmath>

#include "costmodel/memory.h"

namespace isocost {
namespace {

constexpr double kWholeGradient = StateBytes::kWeight;  // before it is scattered

// The parameters of a module on a tensor rank.
struct Parameters {
  double layers = 1;
  double in_layers = 0;
  double embeddings = 0;
  double trained_share = 0;

  double of_layer() const { return in_layers / layers; }
};

// The ring of the ranks that share the weights.
struct Ring {
  double members = 1;
  double bytes_per_s = 1;
  double latency_s = 0;  // of a collective

  double seconds(double bytes, double collectives) const {
    return bytes > 0 ? bytes * (members - 1) / members / bytes_per_s + collectives * latency_s : 0;
  }
};

PassTransfers transfers_of(const ShardedModule& module, const Parameters& parameters,
                           const Ring& ring) {
  const double gradient = StateBytes::kGradient * parameters.trained_share;
  const double gather_s =
      ring.seconds(StateBytes::kWeight * parameters.in_layers, parameters.layers);
  const double scatter_s = ring.seconds(gradient * parameters.in_layers, parameters.layers);
  const double embeddings_s = ring.seconds(StateBytes::kWeight * parameters.embeddings, 1) +
                              ring.seconds(gradient * parameters.embeddings, 1);
  const double behind_passes = 1 - 1 / parameters.layers;
  const bool regathers = module.has_backward && module.reshard;
  return {.exposed_s = embeddings_s + (gather_s + scatter_s) / parameters.layers,
          .forward_s = behind_passes * gather_s,
          .backward_s = (regathers ? gather_s : 0) + behind_passes * scatter_s};
}

// Returns the most bytes of layers that are whole, or of the gradients of embeddings that are
// scattered. A pass holds its layer and the one that is gathered meanwhile; the gradients of a
// layer are whole beside those of the layer after it, which are scattered. If all layers stay
// gathered, the most are held with the gradients of the last one: its weights are dropped by then,
// the buffer into which they were gathered is free, and a rank's part of the sum is not yet added.
double layer_bytes(const Parameters& parameters, bool reshard, double members) {
  const double weights = StateBytes::kWeight * parameters.of_layer();
  const double gradients =
      parameters.trained_share * (kWholeGradient + StateBytes::kGradient) * parameters.of_layer();
  const double embeddings =
      parameters.trained_share * StateBytes::kGradient * parameters.embeddings;
  if (reshard) return 2 * weights + std::max(gradients, embeddings);
  const double part =
      parameters.trained_share * StateBytes::kGradient * parameters.of_layer() / members;
  return std::max({weights, gradients + part - weights, embeddings});
}

}  // namespace

Sharding sharding_of(const Cluster& cluster, const ShardedModule& module,
                     const ModuleDegrees& degrees) {
  if (degrees.shard == 1) return {};
  const auto tensor = static_cast<double>(degrees.tensor);
  const auto embeddings = static_cast<double>(module.shape.embedding_parameters);
  const Parameters parameters{.layers = static_cast<double>(module.shape.layers),
                              .in_layers = (module.parameters - embeddings) / tensor,
                              .embeddings = embeddings / tensor,
                              .trained_share = module.trained / module.parameters};
  const auto members = static_cast<double>(degrees.shard);
  const Ring ring{.members = members,
                  .bytes_per_s = cluster.ring_bytes_per_s({.members = degrees.shard,
                                                           .stride = degrees.tensor,
                                                           .blocks = degrees.data / degrees.shard}),
                  .latency_s = std::ceil(std::log2(members)) * cluster.latency_s};
  const double kept = StateBytes::kWeight * parameters.in_layers;
  return {.transfers = transfers_of(module, parameters, ring),
          .layer_bytes = layer_bytes(parameters, module.reshard, members),
          .kept_bytes = module.reshard ? 0 : kept,
          .whole_bytes = (StateBytes::kWeight + kWholeGradient * parameters.trained_share) *
                         parameters.embeddings};
}

}  // namespace isocost
