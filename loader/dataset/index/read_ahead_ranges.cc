#include "loader/dataset/index/read_ahead_ranges.h"

#include <algorithm>

namespace isocost {
namespace {

constexpr std::int64_t kMost = std::int64_t{32} << 20;
constexpr std::int64_t kMostOfVideo = std::int64_t{8} << 20;
constexpr std::int64_t kGap = 4096;  // larger than a header and its padding

std::int64_t bytes_ahead(const PartShape& shape) {
  return std::min(shape.encoded_bytes, shape.modality == Modality::kVideo ? kMostOfVideo : kMost);
}

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
  bool makes_parts = false;
  for (std::uint64_t i = view.first_part(sample); i < view.first_part(sample + 1); ++i) {
    const PartShape shape = view.part_shape(i);
    if (has_tokens && shape.modality == Modality::kText) continue;
    const PartPlace place = view.part_place(i);
    makes_parts = makes_parts || place.source == kMade;
    if (place.source == kInShard) add(ranges, place.offset, bytes_ahead(shape));
  }
  const PartPlace json = view.json_place(sample);
  if (json.source == kInShard && json.bytes > 0) {
    add(ranges, json.offset, std::min(json.bytes, kMost));
  }
  if (makes_parts || json.source == kMade) {
    const ByteRange record = view.record(sample);
    add(ranges, record.begin, std::min(record.end - record.begin, kMost));
  }
  return ranges;
}

std::vector<FileAhead> read_ahead_files(const IndexView& view, std::uint64_t sample) {
  std::vector<FileAhead> files;
  if (view.files() == 0) return files;
  for (std::uint64_t i = view.first_part(sample); i < view.first_part(sample + 1); ++i) {
    const PartPlace place = view.part_place(i);
    if (place.source == kInShard || place.source == kMade) continue;
    files.push_back({place.source, bytes_ahead(view.part_shape(i))});
  }
  return files;
}

}  // namespace isocost
