#include "decode/bytes/sniff.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

std::optional<MediaFormat> sniff_riff(ByteView head) {
  if (!has_tag(head, 0, "RIFF") && !has_tag(head, 0, "RF64") && !has_tag(head, 0, "RIFX")) {
    return std::nullopt;
  }
  if (has_tag(head, 8, "WEBP")) return MediaFormat::kWebp;
  if (has_tag(head, 8, "WAVE")) return MediaFormat::kWav;
  if (has_tag(head, 8, "AVI ")) return MediaFormat::kAvi;
  return std::nullopt;
}

/// Returns whether a BMP begins here. "BM" is not sufficient, since many texts begin with it.
bool is_bmp(ByteView head) {
  if (!has_tag(head, 0, "BM") || head.size() < 18) return false;
  const std::uint64_t header_bytes = little_endian(head, 14, 4);
  return header_bytes == 12 || (header_bytes >= 40 && header_bytes <= 124);
}

bool is_mp4(ByteView head) {
  constexpr std::array<std::string_view, 7> kFirst = {"ftyp", "moov", "mdat", "wide",
                                                      "free", "skip", "styp"};
  return std::any_of(kFirst.begin(), kFirst.end(),
                     [&](std::string_view type) { return has_tag(head, 4, type); });
}

/// Returns whether a frame header of MPEG audio, without forbidden values, begins here.
bool is_mpeg_audio(ByteView head) {
  if (head.size() < 4 || head[0] != 0xFF || (head[1] & 0xE0) != 0xE0) return false;
  const bool version = (head[1] & 0x18) != 0x08;
  const bool layer = (head[1] & 0x06) != 0;
  const bool rates = (head[2] & 0xF0) != 0xF0 && (head[2] & 0x0C) != 0x0C;
  return version && layer && rates;
}

bool agree(MediaFormat found, MediaFormat claimed, ByteView head) {
  if (found == claimed) return true;
  // An Ogg file holds either codec; tags may precede FLAC as well as MP3.
  if (found == MediaFormat::kOpus && claimed == MediaFormat::kOggVorbis) return true;
  return has_tag(head, 0, "ID3") && claimed == MediaFormat::kFlac;
}

}  // namespace

std::optional<MediaFormat> sniff(ByteView head) {
  constexpr std::string_view kPng = "\x89PNG\r\n\x1A\n";
  if (head.size() >= 3 && big_endian(head, 0, 3) == 0xFFD8FF) return MediaFormat::kJpeg;
  if (has_tag(head, 0, kPng)) return MediaFormat::kPng;
  if (has_tag(head, 0, "GIF87a") || has_tag(head, 0, "GIF89a")) return MediaFormat::kGif;
  if (has_tag(head, 0, "fLaC")) return MediaFormat::kFlac;
  if (has_tag(head, 0, "OggS")) {
    return has_tag(head, 28, "OpusHead") ? MediaFormat::kOpus : MediaFormat::kOggVorbis;
  }
  if (has_tag(head, 0, "\x1A\x45\xDF\xA3")) return MediaFormat::kMatroska;
  if (const auto riff = sniff_riff(head)) return riff;
  if (is_bmp(head)) return MediaFormat::kBmp;
  if (is_mp4(head)) return MediaFormat::kMp4;
  if (has_tag(head, 0, "ID3") || is_mpeg_audio(head)) return MediaFormat::kMp3;
  return std::nullopt;
}

Status check_marks(ByteView head, MediaFormat claimed) {
  const auto found = sniff(head);
  const auto name = [](MediaFormat format) { return std::string(format_name(format)); };
  if (found && agree(*found, claimed, head)) return {};
  if (found) {
    return corrupt("is " + name(*found) + ", not " + name(claimed) +
                   " as its name says: rename it");
  }
  // An MP3 may begin with junk, which its own reader handles.
  if (claimed == MediaFormat::kMp3) return {};
  return corrupt("is no " + name(claimed) + ": it does not begin as one, or is cut off");
}

}  // namespace isocost
