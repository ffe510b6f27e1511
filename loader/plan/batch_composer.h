#pragma once

#include <cstdint>
#include <vector>

#include "balancer/partition/lookahead.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "decode/recipe.h"
#include "loader/dataset/dataset.h"
#include "loader/plan/cursor.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/plan_options.h"
#include "loader/plan/served_layout.h"

namespace isocost {

/// Returns whether `fingerprint` is one of a BatchComposer with this look-ahead, whose cursor has
/// the fingerprint `order`, however it composes windows.
bool draws_by(std::uint64_t fingerprint, std::uint64_t order, std::int64_t lookahead);

/// Decides which samples make up each global batch. With a look-ahead of W batches, steps k·W to
/// k·W + W - 1 of an epoch are a window: the samples that the cursor drew for the window are
/// divided again over its full batches (see compose_batches). A smaller last batch stays as it was
/// drawn, and with W = 1 every batch does.
///
/// Windows are aligned, and a window depends only on what is known before training: the index's
/// loads, the starting model profile and the options. Every run therefore composes the same
/// batches, and any batch can be computed without computing those before it. Measurements never
/// change a batch.
///
/// Keeps the window that it composed last. Single-thread, except that `fingerprint` and
/// `continues` are thread-safe. `cursor`, `dataset` and `recipe` must outlive it.
class BatchComposer {
 public:
  struct Context {
    const Cursor* cursor;
    const Dataset* dataset;
    const Recipe* recipe;
    const ServedLayout* layout = nullptr;      ///< Null: data-parallel ranks only.
    const MicrobatchLimits* limits = nullptr;  ///< Limits by the starting profile; null: none.
  };
  /// Uses lookahead, ranks, microbatches, the limits' options and steps of `options`. With a fixed
  /// number of microbatches, a batch is composed so that it can keep the limits. If each step
  /// chooses its number, a window stays as drawn if the composed one would need more microbatches;
  /// both are counted without padding.
  BatchComposer(const Context& context, const PlanOptions& options, const CostProfile& starting);

  /// Draws from another cursor from now on, which must have the same fingerprint and outlive this
  /// object.
  void draw_from(const Cursor& cursor);

  /// Returns the samples of a batch in the order in which the cursor drew them; empty beyond the
  /// epoch's last step. Errors: those of compose_batches.
  Result<std::vector<SampleId>> batch(std::uint64_t epoch, std::uint64_t step);

  /// Returns a hash, never 0, that is equal for two runs if every step has the same samples in
  /// both. With W = 1 it is the cursor's.
  std::uint64_t fingerprint() const;
  /// Returns whether a run with the fingerprint `other` that stopped before `step` leaves exactly
  /// the samples of this run's steps from `step` on. At the start of a window that also holds for
  /// a run with other ranks or another model profile.
  bool continues(std::uint64_t other, std::uint64_t step) const;

 private:
  struct Window {
    std::uint64_t epoch = 0;
    std::uint64_t first = 0;
    std::vector<std::vector<SampleId>> batches;  ///< Empty: no window is composed yet.
  };
  Result<Window> compose(std::uint64_t epoch, std::uint64_t first) const;
  Result<Composition> share_out(const std::vector<SampleId>& ids,
                                const std::vector<std::size_t>& sizes) const;
  Result<Load> load_of(SampleId id) const;

  Context context_;
  const PlanOptions options_;
  const CostModel model_;         // never corrected
  const std::uint64_t order_;     // the cursor's fingerprint
  const std::uint32_t drawn_;     // hash of the order and of the windows
  const std::uint32_t composed_;  // hash of all that decides how a window is divided
  Window window_;
};

}  // namespace isocost
