#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/source_slice.h"
#include "decode/shape/media_formats.h"

namespace isocost {
namespace {

constexpr std::uint64_t kPcm = 1;
constexpr std::uint64_t kMsAdpcm = 2;
constexpr std::uint64_t kFloat = 3;
constexpr std::uint64_t kALaw = 6;
constexpr std::uint64_t kMuLaw = 7;
constexpr std::uint64_t kImaAdpcm = 0x11;
constexpr std::uint64_t kGsm = 0x31;
constexpr std::uint64_t kMp2 = 0x50;  // MPEG audio, layer II
constexpr std::uint64_t kMp3 = 0x55;
constexpr std::uint64_t kExtensible = 0xFFFE;

/// Reads numbers in the order of a RIFF file's bytes, or of a RIFX file's.
struct Numbers {
  bool is_big = false;

  std::uint64_t at(ByteView bytes, std::size_t offset, std::size_t size) const {
    return is_big ? big_endian(bytes, offset, size) : little_endian(bytes, offset, size);
  }
};

struct WavFormat {
  std::int64_t channels = 0;
  std::int64_t sample_rate = 0;
  std::uint64_t tag = kPcm;
  std::int64_t block_bytes = 1;
  std::int64_t block_frames = 1;  ///< 0: unknown, in MP2 and MP3.
};

bool is_mpeg(std::uint64_t tag) { return tag == kMp2 || tag == kMp3; }

bool is_compressed(std::uint64_t tag) { return tag == kMsAdpcm || tag == kImaAdpcm || tag == kGsm; }

bool known_width(std::uint64_t tag, std::uint64_t bits) {
  switch (tag) {
    case kPcm:
      return bits >= 8 && bits <= 32;
    case kFloat:
      return bits == 32 || bits == 64;
    case kMsAdpcm:
    case kImaAdpcm:
      return bits == 4;
    case kGsm:
    case kMp2:
    case kMp3:
      return true;  // the number means nothing
    default:
      return (tag == kALaw || tag == kMuLaw) && bits == 8;
  }
}

/// Returns the samples of each channel in a compressed block, or in the part of the last one that
/// is there; 0 for a size that no block has.
std::int64_t frames_a_block(std::uint64_t tag, std::int64_t block_bytes, std::int64_t channels) {
  constexpr std::int64_t kGsmBytes = 65;
  constexpr std::int64_t kGsmFrames = 320;
  if (tag == kGsm) return channels == 1 && block_bytes == kGsmBytes ? kGsmFrames : 0;
  if (channels > 2) return 0;
  // A block begins with two samples of MS ADPCM, or one of IMA ADPCM, and the coder's state.
  const std::int64_t header = tag == kMsAdpcm ? 7 : 4;
  const std::int64_t bytes = block_bytes / channels - header;
  if (bytes < 1 || block_bytes % channels != 0) return 0;
  return 2 * bytes + (tag == kMsAdpcm ? 2 : 1);
}

Result<WavFormat> parse_format(ByteView chunk, Numbers numbers) {
  if (chunk.size() < 16) return corrupt("its WAV 'fmt ' chunk is cut off");
  std::uint64_t tag = numbers.at(chunk, 0, 2);
  if (tag == kExtensible) {
    if (chunk.size() < 26) return corrupt("its extensible WAV 'fmt ' chunk is cut off");
    tag = numbers.at(chunk, 24, 2);  // the sub-format's GUID starts with the plain tag
  }
  const std::uint64_t bits = numbers.at(chunk, 14, 2);
  if (!known_width(tag, bits)) {
    return Error(ErrorCode::kUnsupported, "WAV encoding " + std::to_string(tag) + " of " +
                                              std::to_string(bits) +
                                              " bits is not read; use PCM or float");
  }
  WavFormat format;
  format.channels = static_cast<std::int64_t>(numbers.at(chunk, 2, 2));
  format.sample_rate = static_cast<std::int64_t>(numbers.at(chunk, 4, 4));
  format.tag = tag;
  if (is_mpeg(tag)) {
    format.block_frames = 0;
    return format;
  }
  if (format.channels == 0) return corrupt("its WAV header says no channels");
  format.block_bytes = static_cast<std::int64_t>(numbers.at(chunk, 12, 2));
  if (is_compressed(tag)) {
    format.block_frames = frames_a_block(tag, format.block_bytes, format.channels);
    if (format.block_frames > 0) return format;
    return corrupt("its WAV block size does not fit its encoding and channels");
  }
  const std::int64_t frame_bytes = format.channels * static_cast<std::int64_t>((bits + 7) / 8);
  if (format.block_bytes != frame_bytes) {
    return corrupt("its WAV block size does not fit its channels and bits");
  }
  return format;
}

/// Returns whether a size other than 0 that a field of `bytes` bytes states means "unknown":
/// streams and pipes are written before it is known, as one of the largest numbers, some less the
/// headers.
bool is_placeholder(std::int64_t size, std::int64_t bytes) {
  constexpr std::int64_t kHeaders = 0x1000;
  if (bytes == 8) return size == std::numeric_limits<std::int64_t>::max();
  return std::abs(size - INT32_MAX) <= kHeaders || size >= UINT32_MAX - kHeaders;
}

/// Returns the samples of each channel that the bytes hold.
std::int64_t frames_of(const WavFormat& format, std::int64_t data_bytes) {
  const std::int64_t blocks = data_bytes / format.block_bytes;
  std::int64_t rest = data_bytes % format.block_bytes;
  // IMA ADPCM has four bytes of each channel in turn.
  if (format.tag == kImaAdpcm) rest -= rest % (4 * format.channels);
  const bool has_part = is_compressed(format.tag) && rest > 0;
  return blocks * format.block_frames +
         (has_part ? frames_a_block(format.tag, rest, format.channels) : 0);
}

/// Walks the chunks; reads the first block of the file once, and later bytes in small reads.
class WavChunks {
 public:
  explicit WavChunks(const ByteSource& source) : source_(source) {}

  Result<WavLayout> run() {
    ISOCOST_ASSIGN(block_, read_some(source_, 0, kBlock));
    const bool wide = has_tag(block_, 0, "RF64") || has_tag(block_, 0, "BW64");
    numbers_.is_big = has_tag(block_, 0, "RIFX");
    const bool is_known = wide || numbers_.is_big || has_tag(block_, 0, "RIFF");
    if (!is_known || !has_tag(block_, 8, "WAVE")) return corrupt("it is no RIFF/WAVE file");
    ISOCOST_TRY(check_alone());
    std::int64_t at = 12;
    for (int i = 0; i < kMaxChunks; ++i) {
      ISOCOST_ASSIGN(const auto head, bytes_at(at, 8));
      if (head.size() < 8) return corrupt("cut off: it has no WAV data chunk");
      const auto length = static_cast<std::int64_t>(numbers_.at(head, 4, 4));
      if (has_tag(head, 0, "data")) {
        return wide && wide_ ? finish(at + 8, wide_->bytes, {wide_->at, 8})
                             : finish(at + 8, length, {at + 4, 4});
      }
      ISOCOST_TRY(take_chunk(head, at + 8, length));
      at += 8 + length + (length & 1);
    }
    return corrupt("it has too many WAV chunks before its data");
  }

 private:
  // The size that RF64 states, and the offset where it does.
  struct WideSize {
    std::int64_t bytes = 0;
    std::int64_t at = 0;
  };

  static constexpr std::size_t kBlock = 512;
  static constexpr int kMaxChunks = 1000;

  Result<std::vector<std::uint8_t>> bytes_at(std::int64_t at, std::size_t size) const {
    const auto end = static_cast<std::size_t>(at) + size;
    if (end <= block_.size()) {
      return std::vector<std::uint8_t>(block_.begin() + at,
                                       block_.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return read_some(source_, at, size);
  }

  // Refuses WAVs one after another, of which libsndfile reads none.
  Status check_alone() const {
    const auto end = 8 + static_cast<std::int64_t>(numbers_.at(block_, 4, 4));
    if (end >= source_.size()) return {};
    ISOCOST_ASSIGN(const auto head, bytes_at(end, 12));
    if (!has_tag(head, 0, "RIFF") || !has_tag(head, 8, "WAVE")) return {};
    return Error(ErrorCode::kUnsupported,
                 "another WAV begins at byte " + std::to_string(end) + ": give each a file");
  }

  Status take_chunk(ByteView head, std::int64_t body, std::int64_t length) {
    if (has_tag(head, 0, "fmt ")) {
      ISOCOST_ASSIGN(const auto chunk,
                     bytes_at(body, static_cast<std::size_t>(std::min<std::int64_t>(length, 40))));
      ISOCOST_ASSIGN(format_, parse_format(chunk, numbers_));
    } else if (has_tag(head, 0, "ds64")) {
      ISOCOST_ASSIGN(const auto chunk, bytes_at(body, 16));
      if (chunk.size() < 16 || length < 16) return corrupt("its RF64 'ds64' chunk is cut off");
      const std::uint64_t size = little_endian(chunk, 8, 8);
      constexpr auto kLargest =
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      wide_ = WideSize{static_cast<std::int64_t>(std::min(size, kLargest)), body + 8};
    }
    return {};
  }

  // Returns whether chunks follow from `at` to the file's end, as they do after an empty recording.
  Result<bool> is_followed_by_chunks(std::int64_t at) const {
    for (int i = 0; i < kMaxChunks && at < source_.size(); ++i) {
      ISOCOST_ASSIGN(const auto head, bytes_at(at, 8));
      const auto is_letter = [](std::uint8_t c) { return c >= ' ' && c <= '~'; };
      if (head.size() < 8 || !std::all_of(head.begin(), head.begin() + 4, is_letter)) return false;
      const auto length = static_cast<std::int64_t>(numbers_.at(head, 4, 4));
      at += 8 + length + (length & 1);
    }
    return at == source_.size() || at == source_.size() + 1;  // the last padding may be missing
  }

  Result<WavLayout> finish(std::int64_t body, std::int64_t length, SizeField field) const {
    // Some writers count headers or a padding byte in; a larger difference means a file cut off.
    constexpr std::int64_t kMostBeyond = 1024;
    if (!format_) return corrupt("its WAV data comes before a 'fmt ' chunk");
    const std::int64_t there = source_.size() - body;
    bool is_unknown = is_placeholder(length, field.bytes);
    if (length == 0) {
      ISOCOST_ASSIGN(const bool is_empty, is_followed_by_chunks(body));
      is_unknown = !is_empty;
    }
    if (!is_unknown && length > there + kMostBeyond) {
      return corrupt("cut off: its WAV header says " + std::to_string(length) +
                     " bytes of audio, " + std::to_string(there) + " are there");
    }
    WavLayout layout;
    layout.size_field = field;
    layout.is_big_endian = numbers_.is_big;
    layout.holds_mp3 = is_mpeg(format_->tag);
    layout.stated_bytes = length;
    layout.data_bytes = is_unknown ? there : std::min(length, there);
    layout.header.format = MediaFormat::kWav;
    layout.header.sample_rate = format_->sample_rate;
    layout.header.channels = format_->channels;
    layout.header.frames = frames_of(*format_, layout.data_bytes);
    return layout;
  }

  const ByteSource& source_;
  Numbers numbers_;
  std::vector<std::uint8_t> block_;
  std::optional<WavFormat> format_;
  std::optional<WideSize> wide_;
};

}  // namespace

Result<WavLayout> read_wav_layout(const ByteSource& source) { return WavChunks(source).run(); }

Result<SourceSlice> without_id3v2(const ByteSource& source) {
  ISOCOST_ASSIGN(const std::int64_t start, skip_id3v2(source));
  const std::int64_t offset = std::min(start, source.size());
  return SourceSlice(source, offset, source.size() - offset);
}

Result<AudioHeader> read_wav_header(const ByteSource& source) {
  ISOCOST_ASSIGN(const SourceSlice wav, without_id3v2(source));
  ISOCOST_ASSIGN(const WavLayout layout, read_wav_layout(wav));
  return layout.holds_mp3 ? read_mp3_header(source) : layout.header;
}

}  // namespace isocost
