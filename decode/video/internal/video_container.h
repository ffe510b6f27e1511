#pragma once

#include <cstdint>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Properties of a video file's outermost structure.
struct VideoContainer {
  bool fragmented = false;  ///< Whether the index of an MP4 is spread over the file.
};

/// Checks the outermost structure before a demuxer sees the bytes: the boxes, segment or list must
/// lie within the source, and a table of sizes must not claim more than the source can hold (the
/// demuxer would allocate for it). Reads a few dozen small headers. Errors: kCorrupt, kIo.
Result<VideoContainer> check_video_container(const ByteSource& source, MediaFormat format);

}  // namespace isocost
