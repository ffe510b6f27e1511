#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// Walks the frames of an MP3 stream, one after the other without a gap: damage is an error and is
/// not skipped. Single-thread; the source must outlive it.
class Mp3Frames {
 public:
  /// Finds the first frame. Errors: kCorrupt (no frames), kIo.
  static Result<Mp3Frames> open(const ByteSource& source);

  /// Returns the next whole frame that holds audio, valid until the next call; empty at the end.
  /// Errors: kCorrupt (bytes that are neither a frame of this stream nor a tag at its end), kIo.
  Result<ByteView> next();

  std::int64_t sample_rate() const { return sample_rate_; }
  std::int64_t channels() const { return channels_; }
  std::int64_t samples_a_frame() const { return samples_a_frame_; }
  /// Returns the number of decoded samples at the start that are not audible.
  std::int64_t skip() const { return skip_; }

 private:
  Mp3Frames(const ByteSource& source, std::int64_t offset) : source_(&source), offset_(offset) {}

  const ByteSource* source_;
  std::int64_t offset_;  ///< Offset of the byte after block_.
  std::vector<std::uint8_t> block_;
  std::size_t at_ = 0;
  std::int64_t sample_rate_ = 0;
  std::int64_t channels_ = 0;
  std::int64_t samples_a_frame_ = 0;
  std::int64_t skip_ = 0;
};

}  // namespace isocost
