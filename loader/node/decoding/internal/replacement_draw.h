#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/random.h"
#include "loader/dataset/dataset.h"

namespace isocost {

/// Consecutive samples.
struct SampleRange {
  SampleId first = 0;
  std::uint64_t count = 0;
};

/// Returns the samples of the source that a sample is of.
SampleRange source_of(const Dataset& dataset, SampleId id);

/// Draws samples that may take a bad one's place: others of its source, the same in every run and
/// beside any other sources.
class ReplacementDraw {
 public:
  /// `source`: the samples of the bad one's source (source_of).
  ReplacementDraw(std::uint64_t seed, SampleId bad, SampleRange source)
      : random_(seed ^ ((bad - source.first) * 0x9E3779B97F4A7C15ULL)), source_(source) {}

  /// Returns the next one that is not among `taken`; nothing after a number of tries, since a data
  /// set may have no other.
  std::optional<SampleId> next(std::span<const SampleId> taken);

 private:
  Random random_;
  SampleRange source_;
  int tries_left_ = 16;
};

}  // namespace isocost
