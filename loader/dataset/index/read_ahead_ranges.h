#pragma once

#include <cstdint>
#include <vector>

#include "loader/dataset/index/index_format.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// What is to be read ahead of a sample: the parts that are decoded, and the JSON, each up to 32
/// MiB, but of a video 8 MiB. What lies side by side is one range. With `has_tokens`, text is not
/// read, since its tokens are. None of a compressed shard. `sample` is counted within the shard.
std::vector<ByteRange> read_ahead_ranges(const IndexView& view, std::uint64_t sample,
                                         bool has_tokens);

}  // namespace isocost
