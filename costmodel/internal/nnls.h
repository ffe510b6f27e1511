#pragma once

#include <array>
#include <cstddef>

namespace isocost {

inline constexpr std::size_t kTermCount = 4;
using TermVector = std::array<double, kTermCount>;
using TermMatrix = std::array<TermVector, kTermCount>;

/// Minimises xᵀAx − 2bᵀx over x >= 0 exactly, for a symmetric positive definite A: of the 16 sets
/// of terms that may be positive it takes the best feasible one. The full set is tried first and is
/// the answer whenever it is feasible.
TermVector solve_non_negative(const TermMatrix& a, const TermVector& b);

}  // namespace isocost
