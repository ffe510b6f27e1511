#include "decode/prepare/exact_video.h"

#include <cstddef>
#include <vector>

#include "decode/prepare/recipe_family.h"
#include "decode/video/video.h"

namespace isocost {

Status add_exact_video(const PartBytes& bytes, const ExactVideo& video, SampleTensors& to,
                       const DecodeLimit& limit) {
  ISOCOST_TRY(check_size(bytes));
  if (video.indices.empty()) return {};
  const PartShape& shape = *bytes.shape;
  std::vector<std::int64_t> indices(video.indices.begin(), video.indices.end());
  while (std::ssize(indices) % video.depth != 0) indices.push_back(indices.back());
  std::span<std::byte> patches;
  const auto sink = [&](std::size_t i, std::span<const std::uint8_t> rgb) -> Status {
    const auto frame = static_cast<std::int32_t>(i) % video.depth;
    if (frame == 0) patches = to.next_image(video.grid, video.depth);
    return framed_patches({rgb, shape.width, shape.height}, video.framing, video.grid,
                          {video.filter}, patches, {video.depth, frame}, limit);
  };
  return exact_video_frames(*bytes.source, shape, indices, sink, limit);
}

std::int64_t exact_video_bytes(const PartShape& shape, const Framing& framing,
                               ResampleFilter filter) {
  return exact_video_working_set_bytes(shape) + framing_bytes(shape, framing, {filter});
}

}  // namespace isocost
