#include "loader/dataset/index/read_ahead_ranges.h"

#include <algorithm>

namespace isocost {
namespace {

constexpr std::int64_t kMost = std::int64_t{32} << 20;
constexpr std::int64_t kMostOfVideo = std::int64_t{8} << 20;
constexpr std::int64_t kGap = 4096;  // larger than a header and its padding

void add(std::vector<ByteRange>& ranges, std::int64_t begin, std::int64_t bytes) {
  const bool follows =
      !ranges.empty() && begin >= ranges.back().end && begin - ranges.back().end <= kGap;
  if (follows) {
    ranges.back().end = begin + bytes;
  } else {
    ranges.push_back({begin, begin + bytes});
  }
}

}  // namespace

std::vector<ByteRange> read_ahead_ranges(const IndexView& view, std::uint64_t sample,
                                         bool has_tokens) {
  std::vector<ByteRange> ranges;
  const bool is_compressed = view.tar_bytes() != view.identity().stamp.bytes;
  if (is_compressed) return ranges;
  for (std::uint64_t i = view.first_part(sample); i < view.first_part(sample + 1); ++i) {
    const PartShape shape = view.part_shape(i);
    if (has_tokens && shape.modality == Modality::kText) continue;
    const std::int64_t most = shape.modality == Modality::kVideo ? kMostOfVideo : kMost;
    add(ranges, view.part_offset(i), std::min(shape.encoded_bytes, most));
  }
  const std::int64_t json = view.json_bytes(sample);
  if (json > 0) add(ranges, view.json_offset(sample), std::min(json, kMost));
  return ranges;
}

}  // namespace isocost
