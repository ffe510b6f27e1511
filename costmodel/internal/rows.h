#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/load.h"
#include "costmodel/shape_bucket.h"

namespace isocost {

/// The factors of a module: one on its fixed seconds, one on each shape bucket.
inline constexpr std::size_t kFixed = 0;
inline constexpr std::size_t kFactors = 1 + kShapeBuckets;
constexpr std::size_t factor_of_bucket(std::size_t bucket) { return 1 + bucket; }

/// The part of a microbatch's profile seconds to which one factor applies. The shares of a row add
/// up to one.
struct Share {
  std::uint32_t factor = 0;
  float share = 0;
};

/// One module of a measured microbatch, relative to the profile.
struct Row {
  std::int32_t rank = 0;
  std::uint32_t microbatch = 0;  ///< Index of the microbatch in the step.
  std::uint32_t first = 0;       ///< Index of its first share.
  std::uint32_t count = 0;       ///< Number of its shares.
  double profile_s = 0;
  double ratio = 0;    ///< Measured over profile seconds.
  double learned = 1;  ///< The ratio predicted by the factors learned before this row.
  ModuleLoad load;
};

/// Rows of one module.
struct Rows {
  std::vector<Row> rows;
  std::vector<Share> shares;

  std::span<const Share> of(const Row& row) const { return {shares.data() + row.first, row.count}; }
  /// Returns whether a row took its launches, whatever its load. Its only factor is kFixed.
  bool took_launches(const Row& row) const {
    return row.count == 1 && shares[row.first].factor == kFixed;
  }
  void clear() {
    rows.clear();
    shares.clear();
  }
  /// Appends a row of `other` with its shares.
  void append(const Rows& other, const Row& row);
};

}  // namespace isocost
