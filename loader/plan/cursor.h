#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "loader/dataset/dataset.h"
#include "loader/plan/block_order.h"
#include "loader/plan/epoch_order.h"
#include "loader/plan/mixture/step_ranges.h"
#include "loader/plan/mixture_cursor.h"
#include "loader/plan/shuffle_policy.h"

namespace isocost {

/// Treatment of the samples at the end of an epoch that do not fill a global batch.
enum class TailPolicy : std::uint8_t {
  kDeliver,  ///< They make a smaller last batch.
  kDrop,     ///< They are left out, and counted.
  kCarry,    ///< They come first in the next epoch; the last epoch delivers its own.
};

struct CursorOptions {
  std::uint64_t seed = 0;
  std::uint64_t size = 0;               ///< Samples in the data set.
  std::uint64_t global_batch_size = 1;  ///< Samples; 0 counts as 1.
  TailPolicy tail = TailPolicy::kDeliver;
  ShufflePolicy shuffle = ShufflePolicy::kGlobal;
  std::shared_ptr<const BlockOrder> blocks = {};  ///< With kBlocks: the order of `size` samples.
  std::uint64_t epochs = 1;     ///< kCarry needs to know the last epoch; 0: without end.
  std::uint64_t max_steps = 0;  ///< Steps of an epoch at most; the others are left out. 0: all.
  SkippedSteps skipped;         ///< Left out of every epoch; the other steps keep their samples.
  /// The mixture that is drawn from; null: one data set. Seed, batch, size, limits and
  /// steps left out are then the mixture's, and those above have no effect.
  std::shared_ptr<const MixtureCursor> mixture;
};

/// The parts of a fingerprint that say the order of an epoch, beside the seed.
struct OrderIdentity {
  ShufflePolicy shuffle = ShufflePolicy::kGlobal;
  std::uint64_t window_shards = 0;  ///< BlockOrder::window_shards; read with kBlocks only.
  std::uint64_t samples = 0;        ///< BlockOrder::fingerprint; read with kBlocks only.
};

/// Draws the samples of each global batch. The order of an epoch depends on (seed, epoch, size)
/// alone, with kBlocks also on the samples of each shard and the shards of a window. So it is the
/// same for any number of ranks and workers. The permutation is computed, not stored: any batch can
/// be drawn without drawing those before it. Immutable; const-safe.
class Cursor {
 public:
  /// The number of steps of a mixture without an end.
  static constexpr std::uint64_t kEndless = std::numeric_limits<std::uint32_t>::max();

  explicit Cursor(const CursorOptions& options);

  /// Returns the number of global batches in the epoch, `max_steps` at most, without those left
  /// out; kEndless if a mixture has no end.
  std::uint64_t steps(std::uint64_t epoch) const;
  /// Returns the same with those left out.
  std::uint64_t positions(std::uint64_t epoch) const;
  /// Returns the samples of a global batch; empty at and beyond `steps(epoch)`.
  std::vector<SampleId> batch(std::uint64_t epoch, std::uint64_t step) const;
  /// Returns how many samples of the epoch kDrop leaves out.
  std::uint64_t dropped(std::uint64_t epoch) const;
  /// Returns how many samples of the epoch belong to steps that are left out.
  std::uint64_t skipped(std::uint64_t epoch) const;
  /// Returns a hash, never 0, that is equal for two cursors if every step of every epoch has the
  /// same samples, but for the mixture and the steps left out: a saved state has these themselves
  /// (see continued_mixture). `dataset` is the fingerprint of the data set.
  std::uint64_t fingerprint(std::uint64_t dataset) const;
  /// Returns the fingerprint of a cursor of one data set that differs from this one in the order
  /// alone.
  std::uint64_t fingerprint(std::uint64_t dataset, const OrderIdentity& order) const;

 private:
  std::uint64_t carried_into(std::uint64_t epoch) const;
  std::uint64_t available(std::uint64_t epoch) const;
  bool delivers_rest(std::uint64_t epoch) const;
  std::uint64_t size_at(std::uint64_t epoch, std::uint64_t position) const;

  CursorOptions options_;
  EpochOrder order_;
};

}  // namespace isocost
