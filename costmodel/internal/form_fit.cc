#include "costmodel/internal/form_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "costmodel/internal/form_terms.h"
#include "costmodel/internal/nnls.h"

namespace isocost {
namespace {

// The prior: the profile's weights are within 50 %. It counts as eight rows with 10 % noise.
constexpr double kRidge = 8 * (0.1 / 0.5) * (0.1 / 0.5);
constexpr double kSmallestFormFactor = 0.02;  // relative to the scale

// Solves in units of each term's typical share of a microbatch, in which all terms are near one.
TermVector fit_terms(const Rows& rows, const TermVector& profile, double scale, double far) {
  TermMatrix a{};
  TermVector b{};
  double count = 0;
  for (const Row& row : rows.rows) {
    if (row.ratio > far * scale || row.ratio * far < scale || rows.took_launches(row)) continue;
    const TermVector terms = terms_of(row.load);
    const double seconds = row.ratio * row.profile_s;
    for (std::size_t i = 0; i < kTermCount; ++i) {
      for (std::size_t j = 0; j < kTermCount; ++j) {
        a[i][j] += terms[i] * terms[j] / (seconds * seconds);
      }
      b[i] += terms[i] / seconds;
    }
    count += 1;
  }
  TermVector unit{};
  for (std::size_t i = 0; i < kTermCount; ++i) {
    unit[i] = count > 0 ? std::sqrt(a[i][i] / count) : 0;
  }
  for (std::size_t i = 0; i < kTermCount; ++i) {
    for (std::size_t j = 0; j < kTermCount; ++j) {
      a[i][j] = unit[i] > 0 && unit[j] > 0 ? a[i][j] / (unit[i] * unit[j]) : 0;
    }
    a[i][i] += kRidge;
    b[i] = (unit[i] > 0 ? b[i] / unit[i] : 0) + kRidge * scale * profile[i] * unit[i];
  }
  TermVector solution = solve_non_negative(a, b);
  for (std::size_t i = 0; i < kTermCount; ++i) {
    solution[i] = unit[i] > 0 ? solution[i] / unit[i] : scale * profile[i];
  }
  return solution;
}

// Returns the seconds per unit of a sequence of this length.
double rate(const TermVector& weights, double length) {
  return weights[1] / length + weights[2] + weights[3] * length;
}

}  // namespace

FactorVector fit_form_factors(const Rows& rows, const ModuleCoefficients& profile, double scale,
                              double far) {
  const TermVector before{profile.per_microbatch, profile.per_sequence, profile.per_unit,
                          profile.per_unit_squared};
  const TermVector after = fit_terms(rows, before, scale, far);
  FactorVector factors;
  factors.fill(scale);
  const auto ratio = [scale](double new_s, double old_s) {
    return old_s > 0 ? std::max(new_s / old_s, kSmallestFormFactor * scale) : scale;
  };
  // Launches have the same factor as the other fixed seconds, and say nothing of them.
  const bool launches = std::any_of(rows.rows.begin(), rows.rows.end(),
                                    [&](const Row& row) { return rows.took_launches(row); });
  if (!launches) factors[kFixed] = ratio(after[0], before[0]);
  for (std::size_t b = 0; b < kShapeBuckets; ++b) {
    const double length = bucket_start(b) * std::exp2(0.25);
    factors[factor_of_bucket(b)] = ratio(rate(after, length), rate(before, length));
  }
  return factors;
}

}  // namespace isocost
