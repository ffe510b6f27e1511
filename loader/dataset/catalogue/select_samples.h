#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "loader/dataset/catalogue/bad_sample.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_selection.h"
#include "loader/dataset/tokens/shape_check.h"

namespace isocost {

struct SelectionOptions {
  /// Called once for each sample that has no other fault. Null: all can be used.
  ShapeCheck check_shape;
  /// Whether samples with tokens that check_shape refuses are cut at the end of a turn.
  bool truncate = false;
};

struct Selection {
  std::vector<ShardSelection> shards;  ///< One for each shard.
  /// Samples that indexing found bad, then those without tokens, and those that check_shape
  /// refuses; each in the order of the shards.
  std::vector<BadSample> bad;
};

/// Selects the samples of a data set that can be used.
Selection select_samples(std::span<const Shard> shards, const SelectionOptions& options);

/// Returns the number of samples that are cut.
std::size_t cut_samples(std::span<const ShardSelection> selections);

}  // namespace isocost
