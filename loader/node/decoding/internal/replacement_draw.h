#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/random.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Draws samples that may take a bad one's place: the same in every run.
class ReplacementDraw {
 public:
  /// `samples`: the size of the data set.
  ReplacementDraw(std::uint64_t seed, SampleId bad, std::uint64_t samples)
      : random_(seed ^ (bad * 0x9E3779B97F4A7C15ULL)), samples_(samples) {}

  /// Returns the next one that is not among `taken`; nothing after a number of tries, since a data
  /// set may have no other.
  std::optional<SampleId> next(std::span<const SampleId> taken);

 private:
  Random random_;
  std::uint64_t samples_;
  int tries_left_ = 16;
};

}  // namespace isocost
