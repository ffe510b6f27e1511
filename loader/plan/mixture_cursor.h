#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/dataset.h"
#include "loader/plan/block_order.h"
#include "loader/plan/epoch_order.h"
#include "loader/plan/mixture/mixture.h"

namespace isocost {

/// Draws the samples of each global batch of a mixture. The i-th draw of a source with m samples is
/// the one at i mod m in that source's order of pass i / m (EpochOrder), whose seed follows from
/// the job's seed and the source's name. So it is the same whatever the other sources are.
/// Immutable; const-safe.
class MixtureCursor {
 public:
  /// `first`: the id of the first sample of each source, by the sources' names. The samples of a
  /// source that was dropped are never drawn, and its id has no effect. `blocks`: if the mixture
  /// has `shuffle_shards`, the order of each source; null for one that was dropped.
  MixtureCursor(std::shared_ptr<const Mixture> mixture, std::vector<SampleId> first,
                std::vector<std::shared_ptr<const BlockOrder>> blocks = {});

  const Mixture& mixture() const { return *mixture_; }
  /// Returns the number of steps of an epoch, without those left out; nothing if there is no end.
  std::optional<std::uint64_t> steps() const;
  /// Returns the number of samples of an epoch; nothing if there is no end.
  std::optional<std::uint64_t> samples() const;
  /// Returns the samples of a step; empty at and beyond `steps()`. Only a mixture by size has other
  /// epochs than 0; each is one pass.
  std::vector<SampleId> batch(std::uint64_t epoch, std::uint64_t step) const;
  /// Returns the names of sources that have got all of their epochs with this step.
  std::vector<std::string> ended_with(std::uint64_t step) const;
  /// Returns a hash, never 0, of what no step of a job can change: the seed, how samples are
  /// shuffled, and the size of a batch. The rest is compared by continued_mixture.
  std::uint64_t fingerprint() const;
  /// Returns the mixture for a saved state. Errors: those of mixture_json.
  Result<std::string> saved() const;

 private:
  std::shared_ptr<const Mixture> mixture_;
  std::vector<SampleId> first_;
  std::vector<EpochOrder> orders_;  // of the sources
};

}  // namespace isocost
