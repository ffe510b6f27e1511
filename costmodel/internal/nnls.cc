#include "costmodel/internal/nnls.h"

#include <cmath>
#include <optional>

namespace isocost {
namespace {

// Solves on the rows and columns in `set` by Cholesky; the other terms are zero. Returns nothing if
// A is not positive definite in floating point.
std::optional<TermVector> solve_on(const TermMatrix& a, const TermVector& b, unsigned set) {
  std::array<std::size_t, kTermCount> terms{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < kTermCount; ++i) {
    if ((set >> i & 1U) != 0) terms[n++] = i;
  }
  TermMatrix l{};
  TermVector y{};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[terms[i]][terms[j]];
      for (std::size_t k = 0; k < j; ++k) sum -= l[i][k] * l[j][k];
      if (i == j && !(sum > 0)) return std::nullopt;
      l[i][j] = i == j ? std::sqrt(sum) : sum / l[j][j];
    }
    double sum = b[terms[i]];
    for (std::size_t k = 0; k < i; ++k) sum -= l[i][k] * y[k];
    y[i] = sum / l[i][i];
  }
  TermVector x{};
  for (std::size_t i = n; i-- > 0;) {
    double sum = y[i];
    for (std::size_t k = i + 1; k < n; ++k) sum -= l[k][i] * x[terms[k]];
    x[terms[i]] = sum / l[i][i];
  }
  return x;
}

bool feasible(const TermVector& x) {
  for (const double value : x) {
    if (!(value >= 0)) return false;
  }
  return true;
}

// Returns the objective at the minimum over a set, where xᵀAx = bᵀx: it is −bᵀx.
double objective(const TermVector& b, const TermVector& x) {
  double sum = 0;
  for (std::size_t i = 0; i < kTermCount; ++i) sum -= b[i] * x[i];
  return sum;
}

}  // namespace

TermVector solve_non_negative(const TermMatrix& a, const TermVector& b) {
  constexpr unsigned kAll = (1U << kTermCount) - 1;
  if (const auto x = solve_on(a, b, kAll); x && feasible(*x)) return *x;
  TermVector best{};
  double best_objective = 0;  // objective at x = 0
  for (unsigned set = 1; set < kAll; ++set) {
    const auto x = solve_on(a, b, set);
    if (!x || !feasible(*x)) continue;
    const double value = objective(b, *x);
    if (value < best_objective) {
      best_objective = value;
      best = *x;
    }
  }
  return best;
}

}  // namespace isocost
