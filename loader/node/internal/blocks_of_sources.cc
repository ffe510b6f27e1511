#include "loader/node/internal/blocks_of_sources.h"

#include <algorithm>
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

std::size_t cached_window_samples(const PlanOptions& options, const Dataset& dataset) {
  // More are seldom drawn ahead, and each takes 8 bytes.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 18;
  if (options.shuffle != ShufflePolicy::kBlocks || !dataset.cache_counts()) return 0;
  std::uint64_t samples = 0;
  for (const DatasetSource& source : dataset.sources()) {
    const std::uint64_t shards = usable_by_shard(dataset, source.first, source.size).size();
    const auto window = std::min(static_cast<std::uint64_t>(options.shuffle_shards), shards);
    if (shards > 0) samples += source.size / shards * window;
  }
  return std::min(samples, kMost);
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
