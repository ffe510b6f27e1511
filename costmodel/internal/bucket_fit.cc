#include "costmodel/internal/bucket_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace isocost {
namespace {

constexpr double kPriorDeviation = 0.3;
constexpr double kNeighbourDeviation = 0.15;
constexpr double kSmallestBucketFactor = 0.02;  // relative to the prior

// The linear system for the factors with evidence, in units of their priors: g = factor / prior.
struct System {
  std::size_t size = 0;
  std::array<std::size_t, kFactors> factor{};
  FactorMatrix a{};  // lower triangle; becomes its Cholesky factor
  FactorVector b{};
};

System make_system(const Evidence& evidence, double noise) {
  System system;
  for (std::size_t k = 0; k < kFactors; ++k) {
    if (evidence.seen(k)) system.factor[system.size++] = k;
  }
  const double ridge = noise * noise / (kPriorDeviation * kPriorDeviation);
  for (std::size_t i = 0; i < system.size; ++i) {
    const std::size_t k = system.factor[i];
    for (std::size_t j = 0; j <= i; ++j) {
      const std::size_t l = system.factor[j];
      system.a[i][j] = evidence.a[k][l];
    }
    system.a[i][i] += ridge;
    system.b[i] = evidence.b[k] + ridge;
  }
  for (std::size_t i = 1; i < system.size; ++i) {
    if (system.factor[i - 1] == kFixed) continue;
    const auto gap = static_cast<double>(system.factor[i] - system.factor[i - 1]);
    const double tie = noise * noise / (kNeighbourDeviation * kNeighbourDeviation * gap);
    system.a[i][i] += tie;
    system.a[i - 1][i - 1] += tie;
    system.a[i][i - 1] -= tie;
  }
  return system;
}

void factorise(FactorMatrix& a, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      // The ridge keeps the diagonal positive; the bound guards against rounding.
      a[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j][j];
    }
  }
}

void solve(const FactorMatrix& l, std::size_t size, FactorVector& b) {
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l[i][k] * b[k];
    b[i] /= l[i][i];
  }
  for (std::size_t i = size; i-- > 0;) {
    for (std::size_t k = i + 1; k < size; ++k) b[i] -= l[k][i] * b[k];
    b[i] /= l[i][i];
  }
}

// Returns the diagonal of (L·Lᵀ)⁻¹: squared norms of the columns of L⁻¹.
FactorVector inverse_diagonal(const FactorMatrix& l, std::size_t size) {
  FactorVector diagonal{};
  for (std::size_t column = 0; column < size; ++column) {
    FactorVector x{};
    for (std::size_t i = column; i < size; ++i) {
      double sum = i == column ? 1 : 0;
      for (std::size_t k = column; k < i; ++k) sum -= l[i][k] * x[k];
      x[i] = sum / l[i][i];
      diagonal[column] += x[i] * x[i];
    }
  }
  return diagonal;
}

// Removes variable `i` from the system by fixing its value.
void pin(System& system, std::size_t i, double value) {
  for (std::size_t k = 0; k < system.size; ++k) {
    if (k == i) continue;
    double& entry = k > i ? system.a[k][i] : system.a[i][k];
    system.b[k] -= entry * value;
    entry = 0;
  }
  system.a[i][i] = 1;
  system.b[i] = value;
}

// Pins variables that would be negative until none is. Each round pins at least one more.
FactorVector solve_above_smallest(System system) {
  FactorVector g{};
  for (std::size_t round = 0; round <= system.size; ++round) {
    FactorMatrix l = system.a;
    g = system.b;
    factorise(l, system.size);
    solve(l, system.size, g);
    bool negative = false;
    for (std::size_t i = 0; i < system.size; ++i) {
      if (g[i] >= kSmallestBucketFactor * (1 - 1e-6)) continue;
      pin(system, i, kSmallestBucketFactor);
      negative = true;
    }
    if (!negative) break;
  }
  return g;
}

void follow_neighbours(const Evidence& evidence, const FactorVector& prior, Fit& fit) {
  for (std::size_t k = 1; k < kFactors; ++k) {
    if (evidence.seen(k)) continue;
    std::size_t nearest = 0;
    for (std::size_t l = 1; l < kFactors; ++l) {
      if (!evidence.seen(l)) continue;
      const auto distance = l > k ? l - k : k - l;
      const auto best = nearest > k ? nearest - k : k - nearest;
      if (nearest == 0 || distance < best) nearest = l;
    }
    if (nearest != 0) fit.factors[k] = prior[k] * fit.factors[nearest] / prior[nearest];
  }
}

}  // namespace

void Evidence::add(std::span<const Share> shares, const FactorVector& prior, double expected,
                   double target) {
  std::array<double, kFactors> x;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  const double scale = 1 / expected;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    x[i] = shares[i].share * prior[shares[i].factor] * scale;
    FactorVector& row = a[shares[i].factor];
    for (std::size_t j = 0; j <= i; ++j) row[shares[j].factor] += x[i] * x[j];
    b[shares[i].factor] += x[i] * target;
  }
  rows += 1;
}

void Evidence::forget(double keep) {
  for (std::size_t i = 0; i < kFactors; ++i) {
    for (std::size_t j = 0; j <= i; ++j) a[i][j] *= keep;
    b[i] *= keep;
  }
  rows *= keep;
}

Fit fit_factors(const Evidence& evidence, const FactorVector& prior, double noise) {
  Fit fit;
  fit.factors = prior;
  fit.deviations.fill(std::numeric_limits<double>::infinity());
  System system = make_system(evidence, noise);
  const FactorVector g = solve_above_smallest(system);
  factorise(system.a, system.size);
  const FactorVector variances = inverse_diagonal(system.a, system.size);
  for (std::size_t i = 0; i < system.size; ++i) {
    const std::size_t k = system.factor[i];
    fit.factors[k] = g[i] * prior[k];
    fit.deviations[k] = noise * std::sqrt(variances[i]) * prior[k];
  }
  follow_neighbours(evidence, prior, fit);
  return fit;
}

}  // namespace isocost
