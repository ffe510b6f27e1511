#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/media_formats.h"

namespace isocost {

/// Properties of a container's outermost structure.
struct MediaContainer {
  bool fragmented = false;  ///< Whether the index of an MP4 is spread over the file.
  std::optional<std::int64_t> sound_bytes;  ///< Bytes of an AIFF's samples.
  bool encrypted_video = false;             ///< Whether a track of an MP4 is encrypted.
  bool encrypted_sound = false;
};

/// Returns the error for encrypted packets of `what`, "video" or "sound".
Error encrypted(const std::string& what);

/// Checks the outermost structure before a demuxer sees the bytes: the boxes, segment, list or
/// chunks must lie within the source, and neither a table of sizes nor the fragments of an MP4 may
/// claim more than the source can hold (the demuxer would allocate for it). An Ogg file must end
/// with a page. Streams, such as MPEG-TS, have no such structure. Reads a few dozen small headers,
/// and those of each fragment. Errors: kCorrupt, kIo.
Result<MediaContainer> check_media_container(const ByteSource& source, MediaFormat format);

}  // namespace isocost
