#include <cstdint>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/sample_shape.h"

namespace isocost {

Result<AudioHeader> read_flac_header(const ByteSource& source) {
  ISOCOST_ASSIGN(const std::int64_t start, skip_id3v2(source));
  constexpr std::size_t kHeaderBytes = 4 + 4 + 34;
  ISOCOST_ASSIGN(const auto bytes, read_some(source, start, kHeaderBytes));
  if (!has_tag(bytes, 0, "fLaC")) return corrupt("it is no FLAC stream");
  if (bytes.size() < kHeaderBytes) return corrupt("cut off within its FLAC header");
  if ((bytes[4] & 0x7F) != 0 || big_endian(bytes, 5, 3) != 34) {
    return corrupt("its FLAC stream does not start with STREAMINFO");
  }
  // Block sizes (4 bytes) and frame sizes (6) come first; then 20 bits rate, 3 channels, 5 depth,
  // 36 samples.
  const std::uint64_t packed = big_endian(bytes, 18, 8);
  AudioHeader header;
  header.format = MediaFormat::kFlac;
  header.sample_rate = static_cast<std::int64_t>(packed >> 44);
  header.channels = static_cast<std::int64_t>((packed >> 41) & 7) + 1;
  const auto total = static_cast<std::int64_t>(packed & ((std::uint64_t{1} << 36) - 1));
  header.frames = total == 0 ? -1 : total;  // 0 stands for "unknown"
  return header;
}

}  // namespace isocost
