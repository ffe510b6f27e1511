#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/audio/internal/audio_headers.h"
#include "decode/audio/internal/mp3_frame.h"
#include "decode/audio/internal/mp3_frames.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"

namespace isocost {
namespace {

constexpr std::size_t kMaxFrame = 2881;  ///< 320 kbit/s at 16 kHz, with padding.
constexpr std::size_t kMinFrame = 24;

bool same_stream(const Mp3Frame& a, const Mp3Frame& b) {
  return a.layer == b.layer && a.sample_rate == b.sample_rate && a.samples == b.samples;
}

struct Located {
  std::int64_t offset = 0;
  Mp3Frame frame;
  std::vector<std::uint8_t> bytes;  ///< The source's bytes from `offset` on.
};

/// Finds the first frame that is followed by another one (or by the end), which chance bytes seldom
/// are.
Result<Located> first_frame(const ByteSource& source, std::int64_t from) {
  ISOCOST_ASSIGN(const std::int64_t start, skip_id3v2(source, from));
  if (start >= source.size()) return corrupt("cut off: nothing follows its ID3 tag");
  bool has_free_format = false;
  for (const std::size_t window : {std::size_t{4} << 10, std::size_t{64} << 10}) {
    ISOCOST_ASSIGN(auto bytes, read_some(source, start, window));
    has_free_format = is_free_format(bytes, 0);
    const bool whole = start + static_cast<std::int64_t>(bytes.size()) >= source.size();
    for (std::size_t at = 0; at + 4 <= bytes.size(); ++at) {
      const auto frame = parse_mp3_frame(bytes, at);
      if (!frame || frame->bytes < kMinFrame) continue;
      const auto next = parse_mp3_frame(bytes, at + frame->bytes);
      const bool last = whole && at + frame->bytes == bytes.size();
      if (!last && !(next && same_stream(*frame, *next))) continue;
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
      return Located{start + static_cast<std::int64_t>(at), *frame, std::move(bytes)};
    }
  }
  if (has_free_format) {
    return corrupt(
        "its MP3 is of free format, which is not read: convert it (ffmpeg -i FILE NEW.mp3)");
  }
  return corrupt("it has no frames of MPEG layer II or III: convert it (ffmpeg -i FILE NEW.mp3)");
}

struct VbrTag {
  bool has_trim = false;    ///< Whether the encoder tells delay and padding, as LAME and FFmpeg do.
  std::int64_t frames = 0;  ///< 0: the tag does not say, as of a stream written to a pipe.
  std::int64_t bytes = 0;   ///< Bytes from the tag's own frame on; 0: the tag does not say.
  std::int64_t delay = 0;   ///< Samples before the first audible one.
  std::int64_t trim = 0;    ///< `delay`, and the padding after the last audible sample.
};

/// Reads the encoder delay and padding of a LAME-style tag after the Xing fields. A decoder adds
/// 529 samples at the start, at the cost of the padding.
void parse_gapless(ByteView bytes, std::size_t at, VbrTag& tag) {
  constexpr std::int64_t kDecoderDelay = 529;
  if (bytes.size() < at + 24 || bytes[at] == 0) return;
  tag.has_trim = true;
  const std::uint64_t packed = big_endian(bytes, at + 21, 3);
  tag.delay = static_cast<std::int64_t>(packed >> 12) + kDecoderDelay;
  tag.trim = static_cast<std::int64_t>((packed >> 12) + (packed & 0xFFF));
}

std::optional<VbrTag> parse_xing(ByteView bytes, std::size_t at) {
  if (!has_tag(bytes, at, "Xing") && !has_tag(bytes, at, "Info")) return std::nullopt;
  if (bytes.size() < at + 120 + 24) return std::nullopt;
  const std::uint64_t flags = big_endian(bytes, at + 4, 4);
  VbrTag tag;
  std::size_t next = at + 8;
  if ((flags & 1) != 0) {
    tag.frames = static_cast<std::int64_t>(big_endian(bytes, next, 4));
    next += 4;
  }
  if ((flags & 2) != 0) {
    tag.bytes = static_cast<std::int64_t>(big_endian(bytes, next, 4));
    next += 4;
  }
  if ((flags & 4) != 0) next += 100;
  if ((flags & 8) != 0) next += 4;
  parse_gapless(bytes, next, tag);
  return tag;
}

std::optional<VbrTag> parse_vbri(ByteView bytes) {
  constexpr std::size_t kAt = 36;
  if (!has_tag(bytes, kAt, "VBRI") || bytes.size() < kAt + 18) return std::nullopt;
  VbrTag tag;
  tag.bytes = static_cast<std::int64_t>(big_endian(bytes, kAt + 10, 4));
  tag.frames = static_cast<std::int64_t>(big_endian(bytes, kAt + 14, 4));
  return tag;
}

std::optional<VbrTag> parse_vbr_tag(ByteView bytes, const Mp3Frame& frame) {
  if (frame.layer != 3) return std::nullopt;
  const std::size_t at = 4 + frame.side_info;
  if (auto tag = parse_xing(bytes, at)) return tag;
  if (auto tag = parse_xing(bytes, at + 2)) return tag;  // after a checksum
  return parse_vbri(bytes);
}

/// Returns whether another stream begins here: with an ID3v2 tag, or with a frame that tells its
/// length. Plain frames continue with the stream before them.
bool begins_stream(ByteView bytes) {
  if (has_tag(bytes, 0, "ID3")) return true;
  const auto frame = parse_mp3_frame(bytes, 0);
  return frame && parse_vbr_tag(bytes, *frame);
}

/// Returns whether a stream continues here. A single frame does not count: the header of some
/// writers leaves out its own.
bool has_plain_frames(ByteView bytes) {
  const auto frame = parse_mp3_frame(bytes, 0);
  return frame && !begins_stream(bytes) && parse_mp3_frame(bytes, frame->bytes);
}

// Bytes of an unknown kind that are passed over in search of a frame or a mark.
constexpr std::int64_t kMostSearched = std::int64_t{1} << 20;

/// Returns where `is_match(bytes, at, is_last)` first holds from `begin` on, at most 1 MiB after
/// it; nothing if it does not. `bytes` continue for `length` bytes after `at`, unless the source
/// ends: `is_last`. Reads small blocks, so that a search costs what it passes over.
template <typename Match>
Result<std::optional<std::int64_t>> search(const ByteSource& source, std::int64_t begin,
                                           std::size_t length, Match is_match) {
  constexpr std::size_t kBlock = std::size_t{8} << 10;
  const std::int64_t end = std::min(source.size(), begin + kMostSearched);
  for (std::int64_t from = begin; from < end; from += static_cast<std::int64_t>(kBlock)) {
    ISOCOST_ASSIGN(const auto bytes, read_some(source, from, kBlock + length));
    const bool is_last = from + static_cast<std::int64_t>(bytes.size()) >= source.size();
    for (std::size_t at = 0; at < std::min(kBlock, bytes.size()); ++at) {
      if (is_match(bytes, at, is_last)) return std::optional(from + static_cast<std::int64_t>(at));
    }
  }
  return std::optional<std::int64_t>();
}

/// Returns the offset after the LYRICS3 tag at `at`, by the mark that ends it; `at` if none
/// does.
Result<std::int64_t> skip_lyrics(const ByteSource& source, std::int64_t at) {
  constexpr std::size_t kMark = 9;
  const auto ends = [](ByteView bytes, std::size_t i, bool /*is_last*/) {
    return has_tag(bytes, i, "LYRICSEND") || has_tag(bytes, i, "LYRICS200");
  };
  ISOCOST_ASSIGN(const auto end, search(source, at, kMark, ends));
  return end ? *end + static_cast<std::int64_t>(kMark) : at;
}

/// Returns the offset after the zeros at `at`.
Result<std::int64_t> skip_zeros(const ByteSource& source, std::int64_t at) {
  constexpr std::size_t kBlock = std::size_t{64} << 10;
  while (at < source.size()) {
    ISOCOST_ASSIGN(const auto bytes, read_some(source, at, kBlock));
    const auto other =
        std::find_if(bytes.begin(), bytes.end(), [](auto byte) { return byte != 0; });
    at += other - bytes.begin();
    if (other != bytes.end() || bytes.empty()) break;
  }
  return at;
}

/// Returns the offset after a tag, or the padding, that stands at `at` after a stream; `at` for
/// other bytes, which are `bytes`.
Result<std::int64_t> skip_tag(const ByteSource& source, std::int64_t at, ByteView bytes) {
  constexpr std::int64_t kId3v1 = 128;
  constexpr std::int64_t kApeHeader = 32;
  if (has_tag(bytes, 0, "TAG")) return at + kId3v1;
  if (has_tag(bytes, 0, "APETAGEX") && bytes.size() >= kApeHeader) {
    return at + kApeHeader + static_cast<std::int64_t>(little_endian(bytes, 12, 4));
  }
  if (has_tag(bytes, 0, "LYRICSBEGIN")) {
    return skip_lyrics(source, at);
  }
  if (has_tag(bytes, 0, "ID3")) return skip_id3v2(source, at);
  return skip_zeros(source, at);
}

/// Returns whether a run of frames begins at `at`: three, or two that end with the file. Fewer are
/// found in chance bytes, too.
bool has_run(ByteView bytes, std::size_t at, bool is_whole) {
  const auto first = parse_mp3_frame(bytes, at);
  if (!first || first->bytes < kMinFrame) return false;
  const auto second = parse_mp3_frame(bytes, at + first->bytes);
  if (!second || second->bytes < kMinFrame || !same_stream(*first, *second)) return false;
  const std::size_t third_at = at + first->bytes + second->bytes;
  if (is_whole && third_at == bytes.size()) return true;
  const auto third = parse_mp3_frame(bytes, third_at);
  return third && same_stream(*first, *third);
}

/// Finds frames after bytes of an unknown kind, which are given up if none come soon.
Result<std::optional<std::int64_t>> find_frames(const ByteSource& source, std::int64_t from) {
  return search(source, from, 3 * kMaxFrame, has_run);
}

/// Returns whether a run of frames of another kind begins at `from`: a stream that has no tag.
Result<bool> begins_other_run(const ByteSource& source, std::int64_t from,
                              const Mp3Frame& of_stream) {
  ISOCOST_ASSIGN(const auto bytes, read_some(source, from, 3 * kMaxFrame));
  const auto frame = parse_mp3_frame(bytes, 0);
  const bool is_whole = from + static_cast<std::int64_t>(bytes.size()) >= source.size();
  return frame && !same_stream(*frame, of_stream) && has_run(bytes, 0, is_whole);
}

/// Returns whether frames of the stream go on somewhere behind `from`, so that other bytes stand
/// between its frames. A single frame counts where the file ends with it.
Result<bool> goes_on(const ByteSource& source, std::int64_t from, const Mp3Frame& of_stream) {
  const auto is_frame = [&](ByteView bytes, std::size_t at, bool is_whole) {
    const auto frame = parse_mp3_frame(bytes, at);
    if (!frame || frame->bytes < kMinFrame || !same_stream(*frame, of_stream)) return false;
    const std::size_t end = at + frame->bytes;
    if (end >= bytes.size()) return is_whole && end == bytes.size();
    const auto next = parse_mp3_frame(bytes, end);
    return next && same_stream(*next, of_stream);
  };
  ISOCOST_ASSIGN(const auto found, search(source, from, kMaxFrame + kMinFrame, is_frame));
  // The rest of the sound may lie beyond the search.
  return found.has_value() || source.size() - from > kMostSearched;
}

/// Returns whether a tag, a chunk of the WAV around an MP3 stream, or only zeros stand here.
bool is_trailing_tag(ByteView bytes, std::size_t at) {
  constexpr std::array<std::string_view, 4> kTags = {"TAG", "APETAGEX", "LYRICSBEGIN", "3DI"};
  constexpr std::array<std::string_view, 2> kChunks = {"LIST", "id3 "};
  if (std::ranges::any_of(kTags, [&](auto tag) { return has_tag(bytes, at, tag); })) return true;
  const std::size_t chunk = at + (at < bytes.size() && bytes[at] == 0 ? 1 : 0);  // after padding
  if (std::ranges::any_of(kChunks, [&](auto tag) { return has_tag(bytes, chunk, tag); })) {
    return true;
  }
  return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(),
                     [](std::uint8_t b) { return b == 0; });
}

Result<std::int64_t> count_samples(Mp3Frames& frames) {
  if (const auto audible = frames.audible()) return *audible;
  std::int64_t count = 0;
  for (;;) {
    ISOCOST_ASSIGN(const ByteView frame, frames.next());
    if (frame.empty()) break;
    ++count;
  }
  // Some writers count the frame of the header itself.
  if (count + 1 < frames.stated_frames()) {
    return corrupt("cut off: its MP3 header says " + std::to_string(frames.stated_frames()) +
                   " frames, " + std::to_string(count) + " are there");
  }
  return std::max<std::int64_t>(0, count * frames.frame().samples - frames.skip());
}

Error streams_differ(std::int64_t offset) {
  return {ErrorCode::kUnsupported,
          "the MP3 stream that begins at byte " + std::to_string(offset) +
              " has another sample rate or layer than the first: give each a file"};
}

}  // namespace

Result<Mp3Frames> Mp3Frames::open(const ByteSource& source, std::int64_t start) {
  ISOCOST_ASSIGN(const Located first, first_frame(source, start));
  Mp3Frames frames(source, first.offset);
  frames.frame_ = first.frame;
  const auto tag = parse_vbr_tag(first.bytes, first.frame);
  if (!tag) return frames;
  const std::int64_t there = source.size() - first.offset;
  if (tag->bytes > there) {
    return corrupt("cut off: its MP3 header says " + std::to_string(tag->bytes) + " bytes, " +
                   std::to_string(there) + " are there");
  }
  if (tag->frames > there / static_cast<std::int64_t>(kMinFrame)) {
    return corrupt("its MP3 header says more frames than its bytes can hold");
  }
  frames.offset_ += static_cast<std::int64_t>(first.frame.bytes);  // the tag's holds no audio
  frames.skip_ = tag->delay;
  if (tag->frames == 0) return frames;
  if (!tag->has_trim) {
    frames.stated_frames_ = tag->frames;
    return frames;
  }
  const std::int64_t end =
      tag->bytes > 0 ? std::max(frames.offset_, first.offset + tag->bytes) : source.size();
  ISOCOST_ASSIGN(const auto behind, read_some(source, end, 2 * kMaxFrame));
  // Frames that continue after its end were added to the file, and its header knows nothing of
  // them.
  if (has_plain_frames(behind)) return frames;
  frames.end_ = end;
  frames.audible_ = std::max<std::int64_t>(0, tag->frames * first.frame.samples - tag->trim);
  return frames;
}

Result<ByteView> Mp3Frames::next() {
  constexpr std::size_t kBlock = std::size_t{32} << 10;
  if (block_.size() - at_ < kMaxFrame && offset_ < source_->size()) {
    block_.erase(block_.begin(), block_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    ISOCOST_ASSIGN(const auto more, read_some(*source_, offset_, kBlock));
    offset_ += static_cast<std::int64_t>(more.size());
    block_.insert(block_.end(), more.begin(), more.end());
  }
  if (block_.size() - at_ < 4) return ByteView();
  const auto frame = parse_mp3_frame(block_, at_);
  const bool is_ours = frame && same_stream(*frame, frame_);
  const ByteView rest = ByteView(block_).subspan(at_);
  if (begins_stream(rest)) return ByteView();
  if (!is_ours) {
    const bool is_behind = audible_ && position() >= end_;
    if (is_behind || is_trailing_tag(block_, at_)) return ByteView();
    ISOCOST_ASSIGN(const bool is_other, begins_other_run(*source_, position(), frame_));
    if (is_other) return ByteView();
    ISOCOST_ASSIGN(const bool is_between, goes_on(*source_, position(), frame_));
    if (!is_between) return ByteView();
    return corrupt("its MP3 frame at byte " + std::to_string(position()) +
                   " is broken, or other bytes stand between its frames; `ffmpeg -i FILE -c:a "
                   "libmp3lame NEW.mp3` makes a file without them");
  }
  if (frame->bytes > rest.size()) return ByteView();  // incomplete, so it does not count
  at_ += frame->bytes;
  return rest.first(frame->bytes);
}

Result<std::optional<std::int64_t>> Mp3Frames::following() const {
  std::int64_t at = audible_ ? end_ : position();
  bool is_after_tag = false;
  while (at < source_->size()) {
    ISOCOST_ASSIGN(const auto bytes, read_some(*source_, at, kMaxFrame));
    const auto frame = parse_mp3_frame(bytes, 0);
    if (frame && frame->bytes <= bytes.size()) {
      ISOCOST_ASSIGN(const bool is_other, begins_other_run(*source_, at, frame_));
      if (is_after_tag || is_other || begins_stream(bytes)) return std::optional(at);
      at += static_cast<std::int64_t>(frame->bytes);  // the one that its header leaves out
      continue;
    }
    ISOCOST_ASSIGN(const std::int64_t behind, skip_tag(*source_, at, bytes));
    if (behind == at) return find_frames(*source_, at);
    at = behind;
    is_after_tag = true;
  }
  return std::optional<std::int64_t>();
}

Result<AudioHeader> read_mp3_header(const ByteSource& source) {
  AudioHeader header;
  header.format = MediaFormat::kMp3;
  header.frames = 0;
  constexpr int kMostStreams = 4096;
  std::optional<std::int64_t> start = 0;
  Mp3Frame first;
  for (int i = 0; start; ++i) {
    if (i == kMostStreams) return corrupt("it has too many MP3 streams one after another");
    ISOCOST_ASSIGN(Mp3Frames frames, Mp3Frames::open(source, *start));
    if (*start == 0) {
      first = frames.frame();
    } else if (!frames.may_follow(first)) {
      return streams_differ(*start);
    }
    ISOCOST_ASSIGN(const std::int64_t samples, count_samples(frames));
    header.frames += samples;
    ISOCOST_ASSIGN(start, frames.following());
  }
  header.sample_rate = first.sample_rate;
  header.channels = first.channels;
  return header;
}

}  // namespace isocost
