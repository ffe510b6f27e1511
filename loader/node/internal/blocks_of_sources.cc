#include "loader/node/internal/blocks_of_sources.h"

#include <cstddef>

namespace isocost {
namespace {

std::shared_ptr<const BlockOrder> blocks_within(const PlanOptions& options, const Dataset& dataset,
                                                SampleId first, std::uint64_t size) {
  return std::make_shared<const BlockOrder>(usable_by_shard(dataset, first, size),
                                            static_cast<std::uint64_t>(options.shuffle_shards));
}

}  // namespace

std::vector<std::uint64_t> usable_by_shard(const Dataset& dataset, SampleId first,
                                           std::uint64_t size) {
  std::vector<std::uint64_t> samples;
  SampleId begin = 0;  // of the shard
  for (std::size_t shard = 0; shard < dataset.shards() && begin < first + size; ++shard) {
    const std::uint64_t count = dataset.usable_samples(shard);
    if (count > 0 && begin >= first) samples.push_back(count);
    begin += count;
  }
  return samples;
}

std::shared_ptr<const BlockOrder> blocks_of(const PlanOptions& options, const Dataset& dataset) {
  if (options.shuffle != ShufflePolicy::kBlocks) return nullptr;
  return blocks_within(options, dataset, 0, dataset.size());
}

BlocksOfSources::BlocksOfSources(const PlanOptions& options, const Dataset& dataset) {
  if (options.shuffle != ShufflePolicy::kBlocks) return;
  for (const DatasetSource& source : dataset.sources()) {
    by_name_[source.name] = blocks_within(options, dataset, source.first, source.size);
  }
}

std::vector<std::shared_ptr<const BlockOrder>> BlocksOfSources::of(
    std::span<const MixtureSource> sources) const {
  std::vector<std::shared_ptr<const BlockOrder>> orders;
  orders.reserve(sources.size());
  for (const MixtureSource& source : sources) {
    const auto found = by_name_.find(source.name);
    orders.push_back(found == by_name_.end() ? nullptr : found->second);
  }
  return orders;
}

}  // namespace isocost
