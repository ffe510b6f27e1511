#pragma once

#include <cstdint>
#include <optional>

namespace isocost {

/// Returns the product of sizes from outside; nothing if it does not fit in 63 bits or a factor is
/// negative. Use it for every allocation whose size comes from a header.
inline std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Returns the sum; nothing if it does not fit in 63 bits or a term is negative.
inline std::optional<std::int64_t> checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace isocost
