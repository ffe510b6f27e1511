#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/byte_range.h"

namespace isocost {

inline constexpr std::int64_t kIdentifyingBlockBytes = 4096;

/// Returns the blocks of ShardFile::content_hash: the first, the last, and 14 between them.
inline std::vector<ByteRange> identifying_blocks(std::int64_t file_bytes) {
  constexpr std::int64_t kBlocks = 16;
  const std::int64_t last = std::max<std::int64_t>(file_bytes - kIdentifyingBlockBytes, 0);
  std::vector<ByteRange> blocks;
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    const std::int64_t begin = last * i / (kBlocks - 1);
    blocks.push_back({begin, begin + kIdentifyingBlockBytes});
  }
  return blocks;
}

}  // namespace isocost
