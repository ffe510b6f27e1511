#include "costmodel/internal/point_fit.h"

#include <cstddef>
#include <vector>

#include "costmodel/internal/form_terms.h"
#include "costmodel/internal/nnls.h"

namespace isocost {

double weight_of(const ProfilePoint& point) {
  constexpr double kCleanSpread = 0.03;  // the spread that profilers aim at
  const double relative = point.spread / kCleanSpread;
  return 1 / (1 + relative * relative);
}

// Solves in units of each term's typical share, in which all terms are near one.
ModuleCoefficients fit_points(const std::vector<ProfilePoint>& points, double against_fixed) {
  constexpr double kLeastDiagonal = 1e-9;  // for terms that the points do not distinguish
  TermMatrix a{};
  TermVector b{};
  TermVector unit{};
  for (const ProfilePoint& point : points) {
    const TermVector terms = terms_of(point.load);
    for (std::size_t i = 0; i < kTermCount; ++i) {
      unit[i] += terms[i] / (point.seconds() * static_cast<double>(points.size()));
    }
  }
  for (const ProfilePoint& point : points) {
    TermVector terms = terms_of(point.load);
    for (std::size_t i = 0; i < kTermCount; ++i) {
      terms[i] = unit[i] > 0 ? terms[i] / (point.seconds() * unit[i]) : 0;
    }
    const double weight = weight_of(point);
    for (std::size_t i = 0; i < kTermCount; ++i) {
      for (std::size_t j = 0; j < kTermCount; ++j) a[i][j] += weight * terms[i] * terms[j];
      b[i] += weight * terms[i];
    }
    a[0][0] += weight * against_fixed * against_fixed;
  }
  for (std::size_t i = 0; i < kTermCount; ++i) a[i][i] += kLeastDiagonal;
  TermVector solution = solve_non_negative(a, b);
  for (std::size_t i = 0; i < kTermCount; ++i) {
    solution[i] = unit[i] > 0 ? solution[i] / unit[i] : 0;
  }
  return {solution[0], solution[1], solution[2], solution[3]};
}

ModuleCoefficients fit_coefficients(const std::vector<ProfilePoint>& points) {
  return fit_points(points, 0);
}

}  // namespace isocost
