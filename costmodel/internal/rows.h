#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/load.h"
#include "costmodel/shape_bucket.h"

namespace isocost {

/// The factors of a module: one for its fixed cost, one for each bucket of shapes.
inline constexpr std::size_t kFixed = 0;
inline constexpr std::size_t kFactors = 1 + kShapeBuckets;
constexpr std::size_t factor_of_bucket(std::size_t bucket) { return 1 + bucket; }

/// Part of a microbatch's seconds by the profile that one factor stands for. A row's shares sum to
/// one.
struct Share {
  std::uint32_t factor = 0;
  float share = 0;
};

/// A module in a measured microbatch, relative to the profile.
struct Row {
  std::int32_t rank = 0;
  std::uint32_t microbatch = 0;  ///< Rows of one microbatch have the same.
  std::uint32_t first = 0;       ///< Of its shares.
  std::uint32_t count = 0;
  double profile_s = 0;
  double ratio = 0;             ///< Measured over profile.
  double cost_model_state = 1;  ///< What the factors learned before make of its ratio.
  ModuleLoad load;
};

/// Rows of one module.
struct Rows {
  std::vector<Row> rows;
  std::vector<Share> shares;

  std::span<const Share> of(const Row& row) const { return {shares.data() + row.first, row.count}; }
  void clear() {
    rows.clear();
    shares.clear();
  }
  void append(const Rows& other);
  /// Takes one row over, with its shares.
  void append(const Rows& other, const Row& row);
};

}  // namespace isocost
