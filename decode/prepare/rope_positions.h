#pragma once

#include <cstdint>
#include <span>

#include "decode/resize/patch_grid.h"

namespace isocost {

/// Positions of M-RoPE (Qwen2-VL, section 2.1), token after token: time, row and column. In text
/// all three count on. The tokens of a picture share a time and have its row and column; tokens
/// after a medium count on from the largest of its positions.
class RopePositions {
 public:
  /// Adds the next rows.size() / 3 tokens, which are text.
  void text(std::span<std::int32_t> rows);
  /// Adds the next tokens, which are `pictures` pictures of a grid. Their times are `interval`
  /// apart, rounded down in float arithmetic as transformers does.
  void pictures(std::span<std::int32_t> rows, std::int64_t pictures, PatchGrid grid,
                float interval);

 private:
  std::int32_t next_ = 0;
};

}  // namespace isocost
