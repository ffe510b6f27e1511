#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sample_part.h"

namespace isocost {

/// Container or codec of a part, according to its bytes, whatever its name says.
enum class MediaFormat : std::uint8_t {
  kUtf8 = 0,
  kJson = 1,
  kJpeg = 2,
  kPng = 3,
  kWebp = 4,
  kGif = 5,
  kBmp = 6,
  kWav = 7,
  kFlac = 8,
  kOggVorbis = 9,
  kOpus = 10,
  kMp3 = 11,
  kMp4 = 12,
  kMatroska = 13,  ///< MKV and WebM
  kAvi = 14,
  kTokens = 15,  ///< A sample's text in a model's tokens: decode/shape/tokens.h.
  kMpegTs = 16,
  kMpegPs = 17,
  kFlv = 18,
  kWmv = 19,  ///< ASF with pictures
  kOgv = 20,
  kM4a = 21,  ///< MP4, QuickTime and 3GP with sound only
  kMka = 22,  ///< MKV and WebM with sound only
  kAviSound = 23,
  kMpegTsSound = 24,
  kMpegPsSound = 25,
  kFlvSound = 26,
  kWma = 27,       ///< ASF with sound only
  kOggSound = 28,  ///< Ogg with another codec than Vorbis or Opus alone
  kAdts = 29,
  kAiff = 30,
  kCaf = 31,
  kTiff = 32,
  kHeic = 33,
  kAvif = 34,
};
inline constexpr MediaFormat kLastFormat = MediaFormat::kAvif;

std::string_view format_name(MediaFormat format);

/// Returns the format of a WebDataset part name ("jpg", "0.png", "caption.txt") by its last
/// extension, ignoring case. JSON is only the part that is called "json". Returns nothing for
/// other names, also for media of formats that Isocost does not read.
std::optional<MediaFormat> format_from_extension(std::string_view part_name);
/// Returns the most common extension of a format: "jpg".
std::string_view extension_of(MediaFormat format);
/// Returns the modality that a part has by its name. The extensions of media, whether they are read
/// or not, are a closed table (docs/formats.md): a part with one of them is read by its content, or
/// its sample is bad. Returns nothing for a part that no model sees.
std::optional<Modality> modality_from_name(std::string_view part_name);
/// Returns the last extension of a part name, in lower case.
std::string part_extension(std::string_view part_name);
Modality modality_of(MediaFormat format);

/// Returns the format of a video's container that has only sound; nothing for other formats.
std::optional<MediaFormat> sound_only(MediaFormat container);

}  // namespace isocost
