#include "loader/node/decoding/internal/replacement_draw.h"

#include <algorithm>
#include <optional>
#include <span>

namespace isocost {

std::optional<SampleId> ReplacementDraw::next(std::span<const SampleId> taken) {
  while (tries_left_ > 0) {
    --tries_left_;
    const SampleId id = random_.below(samples_);
    if (std::ranges::find(taken, id) == taken.end()) return id;
  }
  return std::nullopt;
}

}  // namespace isocost
