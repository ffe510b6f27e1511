#pragma once

#include <cstdint>
#include <vector>

#include "balancer/partition/lookahead.h"
#include "base/result.h"
#include "costmodel/cost_model.h"
#include "decode/recipe.h"
#include "loader/dataset/dataset.h"
#include "loader/plan/cursor.h"
#include "loader/plan/plan_options.h"
#include "loader/plan/served_layout.h"

namespace isocost {

/// Which samples make up each global batch where the node looks ahead: steps k·W to k·W + W - 1 of
/// an epoch are a window, and the samples that the cursor drew for it are shared out anew over its
/// full batches (see compose_batches). Windows are aligned, and what decides is known before
/// training: the index's loads, the starting profile, the options. So any batch can be named
/// without walking to it, by every run alike; measurements do not change it. Nothing moves with
/// W = 1, and a smaller last batch stays as it was drawn.
///
/// Single-thread, but for `fingerprint` and `continues`: keeps the window it composed last.
/// `cursor`, `dataset` and `recipe` outlive it.
class BatchComposer {
 public:
  struct Context {
    const Cursor* cursor;
    const Dataset* dataset;
    const Recipe* recipe;
    const ServedLayout* layout = nullptr;  ///< What a step is for the job; may be null.
  };
  /// Of the options it takes lookahead, ranks, microbatches, microbatch_memory and steps.
  BatchComposer(const Context& context, const PlanOptions& options, const CostProfile& starting);

  /// The samples of a batch in the order in which the cursor drew them; empty beyond the epoch's
  /// steps. Errors: those of compose_batches.
  Result<std::vector<SampleId>> batch(std::uint64_t epoch, std::uint64_t step);

  /// Equal where step k of any epoch has the same samples; not 0. With W = 1 the cursor's.
  std::uint64_t fingerprint() const;
  /// Whether a run that had `other` as its fingerprint left exactly the samples of this one's
  /// later steps when it stopped before `step`: at the start of a window it may have composed
  /// for other ranks or another profile.
  bool continues(std::uint64_t other, std::uint64_t step) const;

 private:
  struct Window {
    std::uint64_t epoch = 0;
    std::uint64_t first = 0;
    std::vector<std::vector<SampleId>> batches;  ///< Empty: nothing composed yet.
  };
  Result<Window> compose(std::uint64_t epoch, std::uint64_t first) const;
  Result<Composition> share_out(const std::vector<SampleId>& ids,
                                const std::vector<std::size_t>& sizes) const;
  Load load_of(SampleId id) const;

  const Context context_;
  const PlanOptions options_;
  const CostModel model_;       // never corrected
  std::uint32_t drawn_ = 0;     // of what is drawn, and into which windows
  std::uint32_t composed_ = 0;  // of all that decides how a window is shared out
  Window window_;
};

}  // namespace isocost
