#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

/// Reads the shape from the header of a container that may hold pictures: width and height as
/// displayed, orientation, duration_us, frames and their rate. Reads the index of an MP4, and
/// otherwise all packets to count frames. Const-safe. Errors: kCorrupt (truncated, no frames),
/// kNotFound (no video stream), kUnsupported (unknown codec), kResourceExhausted (over
/// `max_pixels`), kIo.
Result<PartShape> probe_video(const ByteSource& source, MediaFormat format,
                              std::int64_t max_pixels);

/// Frames a second that are assumed where a container has no rate, as transformers does.
inline constexpr std::int32_t kUnknownFrameRate = 24;

/// Times at which the frames of a video are shown, according to its packets.
struct VideoFrameTimes {
  std::vector<std::int64_t> us;  ///< Microseconds from the first frame, ascending.
  std::int64_t origin = 0;       ///< Time of the first frame, in ticks of the stream.
  bool is_late = false;  ///< Whether packets that are not shown precede the first key frame.
  bool all_told = true;  ///< False where packets contain only decoding times.
};

/// Returns the times. Reads all packets. Decodes none, unless the first ones leave open which
/// pictures a decoder shows: then it decodes up to 256 (first_frames.h). Errors: kCorrupt, kIo,
/// those of `limit`.
Result<VideoFrameTimes> video_frame_times(const ByteSource& source, MediaFormat format,
                                          const DecodeLimit& limit = {});

/// Receives a frame: [height, width, 3] uint8 RGB, packed, valid during the call only.
using VideoFrameSink = std::function<Status(std::size_t index, std::span<const std::uint8_t> rgb)>;

/// Decodes, for each of `times_us` (ascending, from the stream's start), the frame on screen at
/// that time (the last one that starts at or before it, or the first), as displayed, scaled to the
/// target size, and calls `sink` once for each, in order. Seeks to key frames, so a long video is
/// not decoded as a whole. Decodes on the calling thread. Errors: those of the sink and of `limit`;
/// kCorrupt (a packet that does not decode, a stream that ends early), kUnsupported, kIo.
Status video_frames(const ByteSource& source, const PartShape& shape,
                    std::span<const std::int64_t> times_us, std::int32_t target_width,
                    std::int32_t target_height, const VideoFrameSink& sink,
                    const DecodeLimit& limit = {});

/// Returns an upper bound of the memory of video_frames.
std::int64_t video_working_set_bytes(const PartShape& shape, std::int32_t target_width,
                                     std::int32_t target_height);

/// Decodes, for each of `indices` (ascending; the same may come twice), the frame of that number in
/// the order in which frames are shown, as displayed, in its own size, and calls `sink` once for
/// each. Frames with the same time have numbers of their own. If packets do not contain the
/// times at which pictures are shown, such as those of AVI that come in another order than they are
/// shown, or there is no index, as in MPEG-TS, all frames to the last index are decoded.
/// Colours are those of libswscale's defaults, as PyAV and torchcodec give them to processors of
/// transformers; where the stream names a colour matrix or range, as torchcodec. Errors: those of
/// video_frames; kCorrupt, too, where the video has other frames than its shape says, or a frame is
/// not shown at its packet's time.
Status exact_video_frames(const ByteSource& source, const PartShape& shape,
                          std::span<const std::int64_t> indices, const VideoFrameSink& sink,
                          const DecodeLimit& limit = {});

/// Returns an upper bound of the memory of exact_video_frames.
std::int64_t exact_video_working_set_bytes(const PartShape& shape);

}  // namespace isocost
