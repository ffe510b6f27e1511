#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/shape/decode_limit.h"
#include "decode/shape/media_formats.h"

struct AVPacket;
struct AVStream;

namespace isocost {

/// Tells by its first packets whether only decoding shows which frames of a video come first: a
/// video that was cut in an open group of pictures begins with some that refer to pictures before
/// it, and containers do not agree on their times. Single-thread; the stream must outlive it.
class BeginningInDoubt {
 public:
  enum class Verdict { kUnknown, kSure, kInDoubt };

  explicit BeginningInDoubt(const AVStream& stream) : stream_(stream) {}

  /// Takes the next packet of the stream from its first one on.
  Verdict note(const AVPacket& packet);

 private:
  Verdict verdict_of(const AVPacket& packet);

  const AVStream& stream_;
  Verdict verdict_ = Verdict::kUnknown;
  bool had_key_ = false;
  std::optional<std::int64_t> key_;  ///< When the first key frame is shown.
};

/// The frames that a decoder shows of the first packets.
struct FirstFrames {
  static constexpr std::int64_t kPackets = 256;

  std::vector<std::int64_t> ticks;  ///< Their times in the stream, in the order of showing.
  bool all_told = true;             ///< Whether each of them has a time of its own.
};

/// Decodes the first `FirstFrames::kPackets` packets of a video. Errors: those of
/// FrameReader::next.
Result<FirstFrames> decode_first_frames(const ByteSource& source, MediaFormat format,
                                        const DecodeLimit& limit);

}  // namespace isocost
