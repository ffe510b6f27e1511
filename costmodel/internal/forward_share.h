#pragma once

namespace isocost {

/// The forward pass's part of forward and backward seconds: a running mean, weighted by seconds, in
/// which a measurement counts half after 256 more.
struct ForwardShare {
  double forward_s = 0;  ///< Decaying sum of forward seconds.
  double all_s = 0;      ///< Decaying sum of forward and backward seconds.

  void add(double share, double seconds) {
    constexpr double kKept = 0.9973;
    forward_s = kKept * forward_s + share * seconds;
    all_s = kKept * all_s + seconds;
  }
  bool measured() const { return all_s > 0; }
  /// Returns the share; 1/3 before any measurement, since a backward pass computes two products
  /// where the forward pass computes one.
  double value() const { return measured() ? forward_s / all_s : 1.0 / 3; }
};

}  // namespace isocost
