#pragma once

#include <cstdint>
#include <optional>

namespace isocost {

/// The product of sizes read from outside, or nothing where it does not fit in 63 bits or a factor
/// is negative. Every allocation whose size comes from a header goes through here.
inline std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The sum, or nothing where it does not fit or a term is negative.
inline std::optional<std::int64_t> checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace isocost
