#pragma once

#include <array>
#include <cstddef>

namespace isocost {

inline constexpr std::size_t kTermCount = 4;
using TermVector = std::array<double, kTermCount>;
using TermMatrix = std::array<TermVector, kTermCount>;

/// Minimises xᵀAx − 2bᵀx over x >= 0 exactly, for a symmetric positive definite A. Solves for all
/// terms first, which is the answer if it is feasible; else tries every subset of terms and returns
/// the best feasible solution.
TermVector solve_non_negative(const TermMatrix& a, const TermVector& b);

}  // namespace isocost
