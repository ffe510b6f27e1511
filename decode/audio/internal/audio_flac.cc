#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"

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
  header.frames = total == 0 ? -1 : total;  // 0 means "unknown"
  return header;
}

Status check_single_flac(const ByteSource& source, std::int64_t read_to) {
  constexpr std::string_view kStreamInfo("fLaC\0\0\0\x22", 8);
  constexpr std::int64_t kReadAhead = 16 << 10;  // libFLAC holds 8 KiB
  constexpr std::int64_t kMostSearched = 1 << 20;
  constexpr std::size_t kBlock = 64 << 10;
  ISOCOST_ASSIGN(const std::int64_t start, skip_id3v2(source));
  const std::int64_t from = std::max(start + 1, read_to - kReadAhead);
  const std::int64_t end = std::min(source.size(), read_to + kMostSearched);
  for (std::int64_t at = from; at < end; at += static_cast<std::int64_t>(kBlock)) {
    ISOCOST_ASSIGN(const auto bytes, read_some(source, at, kBlock + kStreamInfo.size()));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto found = text.find(kStreamInfo);
    if (found != std::string_view::npos) {
      return Error(ErrorCode::kUnsupported,
                   "another FLAC stream begins at byte " +
                       std::to_string(at + static_cast<std::int64_t>(found)) +
                       ": give each a file");
    }
  }
  return {};
}

}  // namespace isocost
