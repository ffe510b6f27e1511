#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/shape/media_formats.h"
#include "decode/shape/tokens.h"

namespace isocost {

/// A cut of a sample at the end of one of its turns.
struct TurnCut {
  TurnEnd end;
  TokenCut at;
  std::int64_t label_tokens = 0;

  /// Returns how many of the sample's media of a modality are before the cut.
  std::uint32_t media_before(Modality modality) const {
    return modality == Modality::kText ? 0 : end.media.at(static_cast<std::size_t>(modality) - 1);
  }
};

}  // namespace isocost
