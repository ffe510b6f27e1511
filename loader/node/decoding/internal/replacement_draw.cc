#include "loader/node/decoding/internal/replacement_draw.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

namespace isocost {

SampleRange source_of(const Dataset& dataset, SampleId id) {
  const std::vector<DatasetSource>& sources = dataset.sources();
  const auto after = std::ranges::upper_bound(sources, id, {}, &DatasetSource::first);
  const DatasetSource& source = *std::prev(after);
  return {source.first, source.size};
}

std::optional<SampleId> ReplacementDraw::next(std::span<const SampleId> taken) {
  while (tries_left_ > 0) {
    --tries_left_;
    const SampleId id = source_.first + random_.below(source_.count);
    if (std::ranges::find(taken, id) == taken.end()) return id;
  }
  return std::nullopt;
}

}  // namespace isocost
