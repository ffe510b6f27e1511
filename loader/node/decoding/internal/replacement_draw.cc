#include "loader/node/decoding/internal/replacement_draw.h"

#include <algorithm>
#include <optional>
#include <span>

#include "loader/dataset/source_number.h"

namespace isocost {

SampleRange source_of(const Dataset& dataset, SampleId id) {
  const DatasetSource& source = dataset.sources()[source_number(dataset, id)];
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
