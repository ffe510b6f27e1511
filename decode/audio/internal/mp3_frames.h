#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/mp3_frame.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// Walks the frames of an MP3 stream (MPEG audio, layer III, or layer II), one after the other
/// without a gap: damage is an error and is not skipped. A file may hold several streams one after
/// another, each with a length of its own. Single-thread; the source must outlive it.
class Mp3Frames {
 public:
  /// Finds the first frame from `start` on. Errors: kCorrupt (no frames, or more than there are
  /// bytes), kIo.
  static Result<Mp3Frames> open(const ByteSource& source, std::int64_t start = 0);

  /// Returns the next whole frame that holds audio, valid until the next call; empty at the end of
  /// the stream. Errors: kCorrupt (bytes that are neither a frame of this stream nor a tag or
  /// another stream after it, unless the stream states its length and they follow), kIo.
  Result<ByteView> next();

  /// Returns where another stream begins after this one; nothing if none does. Tags, zeros and
  /// up to 1 MiB of unknown bytes may stand between; others are not read. It is known from
  /// the beginning where the stream states its length, otherwise once `next` has come to the end.
  Result<std::optional<std::int64_t>> following() const;

  /// Returns the first frame; the others have its layer, sample rate and number of samples.
  const Mp3Frame& frame() const { return frame_; }
  /// Returns whether this stream can continue a sound whose first frame is `first`.
  bool may_follow(const Mp3Frame& first) const {
    return frame_.sample_rate == first.sample_rate && frame_.samples == first.samples;
  }
  /// Returns the number of decoded samples at the start that are not audible.
  std::int64_t skip() const { return skip_; }
  /// Returns the number of audible samples; nothing if the stream does not state it, or counts its
  /// frames only, as iTunes does, which counts the header's own frame, too.
  std::optional<std::int64_t> audible() const { return audible_; }
  /// Returns the number of frames that such a header states; 0 without one.
  std::int64_t stated_frames() const { return stated_frames_; }

 private:
  Mp3Frames(const ByteSource& source, std::int64_t offset)
      : source_(&source), offset_(offset), end_(source.size()) {}
  std::int64_t position() const { return offset_ - static_cast<std::int64_t>(block_.size() - at_); }

  const ByteSource* source_;
  std::int64_t offset_;  ///< Offset of the byte after block_.
  std::int64_t end_;     ///< Offset after the stream, as its header states it.
  std::vector<std::uint8_t> block_;
  std::size_t at_ = 0;
  Mp3Frame frame_;
  std::int64_t skip_ = 0;
  std::optional<std::int64_t> audible_;
  std::int64_t stated_frames_ = 0;
};

}  // namespace isocost
