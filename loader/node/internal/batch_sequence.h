#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Batches of a node's steps in their order: that of the present step, and those after it as far as
/// a caller has asked. Each is composed once and in this order, so a composer that keeps one window
/// composes no window twice. Single-thread.
class BatchSequence {
 public:
  struct Context {
    /// See BatchComposer::batch.
    std::function<Result<std::vector<SampleId>>(std::uint64_t epoch, std::uint64_t step)> compose;
    std::function<std::uint64_t(std::uint64_t epoch)>
        steps;                 ///< Returns the number of steps of an epoch.
    std::uint64_t epochs = 1;  ///< 0: without end.
    std::size_t ahead = 0;     ///< Most steps after the present one that `following` may look at.
    /// Whether composing a batch asks for no sample's load, so that it may be done long before.
    bool draws = false;
  };
  explicit BatchSequence(Context context) : context_(std::move(context)) {}

  /// Makes a step the present one. Returns its samples; the view is valid until the next call.
  /// Errors: those of `compose`.
  Result<std::span<const SampleId>> move_to(std::uint64_t epoch, std::uint64_t step);

  /// Forgets all batches, as they are composed in another way from now on.
  void clear() { batches_.clear(); }

  /// Returns the sample at `index` within all following steps; nothing beyond `ahead` steps, after
  /// the last epoch, or from a batch on that cannot be composed.
  std::optional<SampleId> following(std::size_t index) { return within(context_.ahead, index); }

  /// Returns the same, as far as steps can be drawn now: up to 1,024 of them.
  std::optional<SampleId> drawn(std::size_t index) {
    return within(context_.draws ? std::max(context_.ahead, kMostDrawn) : context_.ahead, index);
  }

 private:
  struct Batch {
    std::uint64_t epoch = 0;
    std::uint64_t step = 0;
    std::vector<SampleId> ids;
  };
  static constexpr std::size_t kMostDrawn = 1024;

  std::optional<SampleId> within(std::size_t steps, std::size_t index);
  bool extend();

  const Context context_;
  std::deque<Batch> batches_;  // the present one first; empty before the first move_to
};

}  // namespace isocost
