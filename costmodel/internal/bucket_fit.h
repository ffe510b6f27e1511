#pragma once

#include <array>

#include "costmodel/internal/rows.h"

namespace isocost {

using FactorVector = std::array<double, kFactors>;
using FactorMatrix = std::array<FactorVector, kFactors>;

/// Normal equations of a module's factors in units of their priors, with forgetting. Rows are
/// relative, so that each is one measurement of "shares times factors is one".
struct Evidence {
  FactorMatrix a{};  ///< Sum of x·xᵀ; only the lower triangle (column <= row) is kept.
  FactorVector b{};  ///< Sum of x·target.
  double rows = 0;   ///< How many, after forgetting.

  /// x: shares times priors over `expected`, the ratio that is predicted of the row. `target`:
  /// measured over predicted.
  void add(std::span<const Share> shares, const FactorVector& prior, double expected,
           double target);
  void forget(double keep);
  bool seen(std::size_t factor) const { return a[factor][factor] > 1e-6; }
};

/// Factors and how far each may be off.
struct Fit {
  FactorVector factors{};
  FactorVector deviations{};  ///< Standard deviations; infinite where nothing was seen.
};

/// Regularised non-negative least squares. Drawn towards `prior` (each factor within 30 % of it,
/// neighbouring buckets within 15 % of each other); `noise` is a row's relative deviation. A bucket
/// that was never seen follows its nearest neighbour that was.
Fit fit_factors(const Evidence& evidence, const FactorVector& prior, double noise);

}  // namespace isocost
