#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/catalogue/open_shards.h"
#include "loader/dataset/catalogue/sample_id.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_selection.h"
#include "loader/dataset/catalogue/weighted_samples.h"
#include "loader/dataset/tokens/sample_parts.h"
#include "loader/dataset/tokens/turn_cut.h"

namespace isocost {

/// A sample of the catalogue, which must outlive it. Keeps its shard open: what `key` and `parts`
/// return is valid as long as this object, or a copy of `open`, exists.
struct CatalogueSample {
  std::shared_ptr<const Shard> open;
  const Shard& shard;    ///< That shard.
  std::uint64_t number;  ///< The sample's number in the shard.
  const TurnCut* cut;    ///< Null: it is whole.

  std::string_view key() const { return shard.view().key(number); }
  SampleParts parts() const { return shard.parts(number, cut); }
};

/// Shards, and the usable samples of each.
struct CatalogueShards {
  std::unique_ptr<const OpenShards> shards;
  std::vector<ShardSelection> selections;
};

/// The shards of a data set, and the numbers of its usable samples. Const-safe.
class Catalogue {
 public:
  /// Numbers the samples.
  explicit Catalogue(CatalogueShards shards);
  /// Numbers the samples of shards that are open all the time. `selections` has an element for each
  /// of them.
  Catalogue(std::vector<Shard> shards, std::vector<ShardSelection> selections);

  /// Returns the number of usable samples.
  std::uint64_t size() const { return first_.back(); }
  /// Returns a sample: `id` < size(). Errors: those of OpenShards::open.
  Result<CatalogueSample> sample(SampleId id) const;
  const OpenShards& shards() const { return *shards_; }
  /// Returns the number of the shard of a sample: `id` < size().
  std::size_t shard_of(SampleId id) const;
  const WeightedSamples& weighted() const { return weighted_; }
  /// Returns the id of a shard's first sample; size() for the number of shards.
  SampleId first(std::size_t shard) const { return first_[shard]; }
  /// Returns a hash of the shards and the usable samples; equal for equal data sets.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// Returns the hash of the shards from `begin` to `end`, without `end`.
  std::uint64_t fingerprint(std::size_t begin, std::size_t end) const;

 private:
  std::unique_ptr<const OpenShards> shards_;
  std::vector<ShardSelection> selections_;
  std::vector<SampleId> first_;  // id of each shard's first sample, and the size
  WeightedSamples weighted_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace isocost
