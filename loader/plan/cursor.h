#pragma once

#include <cstdint>
#include <vector>

#include "loader/dataset/dataset.h"

namespace isocost {

/// What becomes of an epoch's last samples where they do not fill a global batch.
enum class TailPolicy : std::uint8_t {
  kDeliver,  ///< A smaller last batch.
  kDrop,     ///< Left out, and counted.
  kCarry,    ///< They stand in front of the next epoch's; the last epoch delivers its rest.
};

/// The order in which an epoch visits the samples.
enum class ShufflePolicy : std::uint8_t {
  kOff,     ///< The order of the shards.
  kGlobal,  ///< A permutation of the whole data set.
};

struct CursorOptions {
  std::uint64_t seed = 0;
  std::uint64_t size = 0;               ///< Samples of the data set.
  std::uint64_t global_batch_size = 1;  ///< Samples; 0 counts as 1.
  TailPolicy tail = TailPolicy::kDeliver;
  ShufflePolicy shuffle = ShufflePolicy::kGlobal;
  std::uint64_t epochs = 1;  ///< Tells kCarry which epoch is the last; 0: none is.
};

/// Which samples make up global batch `step` of an epoch. The order of an epoch depends on (seed,
/// epoch, size) alone, so it is the same for any number of ranks and workers, and any batch can be
/// named without walking to it: the permutation is computed, not stored. Immutable; const-safe.
class Cursor {
 public:
  explicit Cursor(const CursorOptions& options);

  std::uint64_t steps(std::uint64_t epoch) const;
  /// Empty at and beyond `steps(epoch)`.
  std::vector<SampleId> batch(std::uint64_t epoch, std::uint64_t step) const;
  /// Samples of the epoch that kDrop leaves out.
  std::uint64_t dropped(std::uint64_t epoch) const;
  /// Equal where step k of any epoch has the same samples; not 0. `dataset` tells data sets apart.
  std::uint64_t fingerprint(std::uint64_t dataset) const;

 private:
  std::uint64_t carried_into(std::uint64_t epoch) const;
  std::uint64_t available(std::uint64_t epoch) const;
  bool delivers_rest(std::uint64_t epoch) const;

  CursorOptions options_;
};

}  // namespace isocost
