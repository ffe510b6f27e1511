#pragma once

#include <cstdint>

namespace isocost {

/// Bytes from `begin` up to, but not including, `end`.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t bytes() const { return end - begin; }
};

}  // namespace isocost
