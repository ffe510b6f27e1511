#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loader/dataset/dataset.h"
#include "loader/plan/block_order.h"
#include "loader/plan/mixture/mixture.h"
#include "loader/plan/plan_options.h"

namespace isocost {

/// Returns the usable samples of each shard whose samples have the ids from `first` to `first +
/// size`, without shards that have none.
std::vector<std::uint64_t> usable_by_shard(const Dataset& dataset, SampleId first,
                                           std::uint64_t size);

/// Returns how many samples the windows of all sources have, whose shards a cache is to have whole;
/// 0 without shuffle = blocks, or without a cache.
std::size_t cached_window_samples(const PlanOptions& options, const Dataset& dataset);

/// Returns the order of a whole data set; null without shuffle = blocks.
std::shared_ptr<const BlockOrder> blocks_of(const PlanOptions& options, const Dataset& dataset);

/// The order of each source of a data set; empty without shuffle = blocks. Immutable.
class BlocksOfSources {
 public:
  BlocksOfSources(const PlanOptions& options, const Dataset& dataset);

  /// Returns the orders of the sources of a mixture; null for one that the data set has not.
  std::vector<std::shared_ptr<const BlockOrder>> of(std::span<const MixtureSource> sources) const;

 private:
  std::map<std::string, std::shared_ptr<const BlockOrder>> by_name_;
};

}  // namespace isocost
