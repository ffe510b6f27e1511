#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"

namespace isocost {

/// The header of a frame of MPEG audio, layer II or III.
struct Mp3Frame {
  int layer = 3;
  std::int64_t sample_rate = 0;
  std::int64_t channels = 0;
  std::int64_t samples = 0;
  std::size_t bytes = 0;
  /// Bytes after the header, and after its checksum if it has one; 0 in layer II.
  std::size_t side_info = 0;
  bool has_checksum = false;
  bool is_mpeg1 = false;
};

/// Parses a frame header (ISO/IEC 11172-3, 13818-3, and the 2.5 extension); returns nothing for
/// other bytes.
std::optional<Mp3Frame> parse_mp3_frame(ByteView bytes, std::size_t at);

/// Returns whether the header of a frame of free format stands here, whose length nothing states.
bool is_free_format(ByteView bytes, std::size_t at);

/// Checks what a whole frame of layer III says of its granules, since the decoder fills a granule
/// that cannot be with silence. Errors: kCorrupt.
Status check_mp3_side_info(ByteView frame);

}  // namespace isocost
