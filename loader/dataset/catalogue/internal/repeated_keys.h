#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/dataset/catalogue/shard.h"

namespace isocost {

/// A sample by the number of its shard and its number in it.
struct SamplePosition {
  std::uint32_t shard = 0;
  std::uint32_t sample = 0;
  auto operator<=>(const SamplePosition&) const = default;
};

/// A sample whose key an earlier sample has; `first` is the first that has it.
struct RepeatedKey {
  SamplePosition repeat;
  SamplePosition first;
};

/// Returns the keys that are repeated across shards, in the order of the repeats; indexing has
/// found those within a shard. Needs sixteen bytes per sample while it runs.
std::vector<RepeatedKey> repeated_keys(std::span<const Shard> shards);

}  // namespace isocost
