#pragma once

namespace isocost {

/// Of a pass forward and backward, the part that goes forth: a running mean, weighted by seconds,
/// in which a measurement counts half after 256 more.
struct ForwardShare {
  double forward_s = 0;  ///< Of measurements, those before the last counted less ...
  double all_s = 0;      ///< ... forward and backward.

  void add(double share, double seconds) {
    constexpr double kKept = 0.9973;
    forward_s = kKept * forward_s + share * seconds;
    all_s = kKept * all_s + seconds;
  }
  /// Before anything was measured: a backward pass computes two gradients where the forward pass
  /// computes one product.
  double value() const { return all_s > 0 ? forward_s / all_s : 1.0 / 3; }
};

}  // namespace isocost
