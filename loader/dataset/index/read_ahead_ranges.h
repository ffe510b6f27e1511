#pragma once

#include <cstdint>
#include <vector>

#include "loader/dataset/index/index_format.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

/// Returns the ranges of its shard's file to read ahead for a sample: the parts that are decoded,
/// and the JSON, each up to 32 MiB, or 8 MiB for a video. Adjacent parts form one range. With
/// `has_tokens`, text is left out, since its tokens are read instead. Returns none for a compressed
/// shard. `sample` is counted within the shard.
std::vector<ByteRange> read_ahead_ranges(const IndexView& view, std::uint64_t sample,
                                         bool has_tokens);

/// Bytes at the begin of a file of the index.
struct FileAhead {
  PartSource source = 1;
  std::int64_t bytes = 0;
};

/// Returns what is read ahead of the parts of a sample that lie in files of their own.
std::vector<FileAhead> read_ahead_files(const IndexView& view, std::uint64_t sample);

}  // namespace isocost
