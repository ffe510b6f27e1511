#pragma once

#include <array>
#include <span>

#include "costmodel/internal/rows.h"

namespace isocost {

using FactorVector = std::array<double, kFactors>;
using FactorMatrix = std::array<FactorVector, kFactors>;

/// Normal equations of a module's factors in units of their priors, with forgetting. Rows are
/// relative: each is one measurement of "the sum of shares times factors is one".
struct Evidence {
  FactorMatrix a{};  ///< Sum of x·xᵀ; only the lower triangle (column <= row) is kept.
  FactorVector b{};  ///< Sum of x·target.
  double rows = 0;   ///< Number of rows, after forgetting.

  /// Adds a row with x = shares times priors over `expected`. `expected` is the row's predicted
  /// ratio, `target` is measured over predicted.
  void add(std::span<const Share> shares, const FactorVector& prior, double expected,
           double target);
  void forget(double keep);
  bool seen(std::size_t factor) const { return a[factor][factor] > 1e-6; }
};

struct Fit {
  FactorVector factors{};
  FactorVector deviations{};  ///< Standard deviations; infinite for factors without evidence.
};

/// Fits the factors by regularised non-negative least squares: each factor is drawn towards `prior`
/// (standard deviation 30 %), and neighbouring buckets towards each other (15 %). `noise` is the
/// relative deviation of a row. A bucket without evidence follows its nearest neighbour with
/// evidence.
Fit fit_factors(const Evidence& evidence, const FactorVector& prior, double noise);

}  // namespace isocost
