#include "balancer/layout/internal/sharding.h"

#include <algorithm>
#include <cmath>

#include "costmodel/memory.h"

namespace isocost {

Sharding sharding_of(const Cluster& cluster, const Architecture& shape, double parameters,
                     double trained, bool has_backward, const ModuleDegrees& degrees) {
  if (degrees.shard == 1) return {};
  const auto n = static_cast<double>(degrees.shard);
  const auto tensor = static_cast<double>(degrees.tensor);
  const double rate = cluster.ring_bytes_per_s(
      {.members = degrees.shard, .stride = degrees.tensor, .blocks = degrees.data / degrees.shard});
  const auto layers = static_cast<double>(shape.layers);
  const auto embeddings = static_cast<double>(shape.embedding_parameters);
  const double in_layers = (parameters - embeddings) / tensor;
  const double trained_share = trained / parameters;
  const double hops = layers * std::ceil(std::log2(n)) * cluster.latency_s;
  const double moved = in_layers * (n - 1) / n / rate;
  const double gather_s = StateBytes::kWeight * moved + hops;
  const double scatter_s = trained > 0 ? StateBytes::kGradient * trained_share * moved + hops : 0;
  constexpr double kWhole = StateBytes::kWeight;  // a gradient before it is scattered
  const double of_layer = in_layers / layers;
  const double whole = embeddings / tensor;
  return {.microbatch_s = gather_s * (has_backward ? 2 : 1) + scatter_s,
          .exposed_s = (gather_s + scatter_s) / layers,
          .layer_bytes = StateBytes::kWeight * 2 * of_layer +
                         trained_share * std::max((kWhole + StateBytes::kGradient) * of_layer,
                                                  StateBytes::kGradient * whole),
          .whole_bytes = (StateBytes::kWeight + kWhole * trained_share) * whole};
}

}  // namespace isocost
