#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "loader/dataset/catalogue/sample_id.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_selection.h"
#include "loader/dataset/catalogue/weighted_samples.h"
#include "loader/dataset/tokens/sample_parts.h"
#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

/// A sample of the catalogue, which must outlive it.
struct CatalogueSample {
  const Shard& shard;
  std::uint64_t number;  ///< The sample's number in the shard.
  const TurnCut* cut;    ///< Null: it is whole.

  std::string_view key() const { return shard.view().key(number); }
  SampleParts parts() const { return shard.parts(number, cut); }
};

/// The shards of a data set, and the numbers of its usable samples. Immutable; const-safe.
class Catalogue {
 public:
  /// Numbers the samples. `selections` has an element for each shard.
  Catalogue(std::vector<Shard> shards, std::vector<ShardSelection> selections);

  /// Returns the number of usable samples.
  std::uint64_t size() const { return first_.back(); }
  /// Returns a sample: `id` < size().
  CatalogueSample sample(SampleId id) const;
  const std::vector<Shard>& shards() const { return shards_; }
  const WeightedSamples& weighted() const { return weighted_; }
  /// Returns the id of a shard's first sample; size() for the number of shards.
  SampleId first(std::size_t shard) const { return first_[shard]; }
  /// Returns a hash of the shards and the usable samples; equal for equal data sets.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// Returns the hash of the shards from `begin` to `end`, without `end`.
  std::uint64_t fingerprint(std::size_t begin, std::size_t end) const;

 private:
  std::vector<Shard> shards_;
  std::vector<ShardSelection> selections_;
  std::vector<SampleId> first_;  // id of each shard's first sample, and the size
  WeightedSamples weighted_;
  std::uint64_t fingerprint_;
};

}  // namespace isocost
