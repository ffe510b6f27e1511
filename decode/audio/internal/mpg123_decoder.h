#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// Decodes frames of MPEG audio, layers II and III, through libmpg123. FFmpeg 5.1 has a wrong table
/// for 24 kHz. Single-thread.
class Mpg123Decoder {
 public:
  static Result<Mpg123Decoder> create();
  Mpg123Decoder(Mpg123Decoder&&) noexcept;
  Mpg123Decoder& operator=(Mpg123Decoder&&) noexcept;
  ~Mpg123Decoder();

  /// Decodes the frame that follows the last one. Returns its samples with `channels` interleaved,
  /// valid until the next call. A frame whose data began before the first one is silent. Errors:
  /// kCorrupt; the next frame can be decoded nevertheless.
  Result<std::span<const float>> decode(ByteView frame);

  /// Returns the channels of the frame that was decoded last.
  std::int32_t channels() const;

  /// Forgets all frames, so that another stream can follow.
  Status reset();

 private:
  struct State;
  explicit Mpg123Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace isocost
