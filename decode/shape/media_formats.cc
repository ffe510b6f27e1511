#include "decode/shape/media_formats.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace isocost {
namespace {

struct Format {
  std::string_view name;
  Modality modality;
};

/// Formats by their numbers.
constexpr std::array kFormats = {
    Format{"UTF-8 text", Modality::kText},
    Format{"JSON", Modality::kText},
    Format{"JPEG", Modality::kImage},
    Format{"PNG", Modality::kImage},
    Format{"WebP", Modality::kImage},
    Format{"GIF", Modality::kImage},
    Format{"BMP", Modality::kImage},
    Format{"WAV", Modality::kAudio},
    Format{"FLAC", Modality::kAudio},
    Format{"Ogg Vorbis", Modality::kAudio},
    Format{"Opus", Modality::kAudio},
    Format{"MP3", Modality::kAudio},
    Format{"MP4", Modality::kVideo},
    Format{"Matroska", Modality::kVideo},
    Format{"AVI", Modality::kVideo},
    Format{"tokens", Modality::kText},
    Format{"MPEG-TS", Modality::kVideo},
    Format{"MPEG-PS", Modality::kVideo},
    Format{"FLV", Modality::kVideo},
    Format{"WMV", Modality::kVideo},
    Format{"Ogg video", Modality::kVideo},
    Format{"MP4 with sound only", Modality::kAudio},
    Format{"Matroska with sound only", Modality::kAudio},
    Format{"AVI with sound only", Modality::kAudio},
    Format{"MPEG-TS with sound only", Modality::kAudio},
    Format{"MPEG-PS with sound only", Modality::kAudio},
    Format{"FLV with sound only", Modality::kAudio},
    Format{"WMA", Modality::kAudio},
    Format{"Ogg sound", Modality::kAudio},
    Format{"ADTS AAC", Modality::kAudio},
    Format{"AIFF", Modality::kAudio},
    Format{"CAF", Modality::kAudio},
    Format{"TIFF", Modality::kImage},
    Format{"HEIC", Modality::kImage},
    Format{"AVIF", Modality::kImage},
};
static_assert(kFormats.size() == static_cast<std::size_t>(kLastFormat) + 1);

constexpr std::array kExtensions = std::to_array<std::pair<std::string_view, MediaFormat>>({
    {"txt", MediaFormat::kUtf8},      {"text", MediaFormat::kUtf8},
    {"caption", MediaFormat::kUtf8},  {"md", MediaFormat::kUtf8},
    {"json", MediaFormat::kJson},     {"jpg", MediaFormat::kJpeg},
    {"jpeg", MediaFormat::kJpeg},     {"jpe", MediaFormat::kJpeg},
    {"jfif", MediaFormat::kJpeg},     {"pjpeg", MediaFormat::kJpeg},
    {"pjp", MediaFormat::kJpeg},      {"png", MediaFormat::kPng},
    {"webp", MediaFormat::kWebp},     {"gif", MediaFormat::kGif},
    {"bmp", MediaFormat::kBmp},       {"wav", MediaFormat::kWav},
    {"wave", MediaFormat::kWav},      {"flac", MediaFormat::kFlac},
    {"ogg", MediaFormat::kOggVorbis}, {"oga", MediaFormat::kOggVorbis},
    {"opus", MediaFormat::kOpus},     {"mp3", MediaFormat::kMp3},
    {"mp4", MediaFormat::kMp4},       {"m4v", MediaFormat::kMp4},
    {"mov", MediaFormat::kMp4},       {"mkv", MediaFormat::kMatroska},
    {"webm", MediaFormat::kMatroska}, {"avi", MediaFormat::kAvi},
    {"qt", MediaFormat::kMp4},        {"3gp", MediaFormat::kMp4},
    {"3gpp", MediaFormat::kMp4},      {"3g2", MediaFormat::kMp4},
    {"ts", MediaFormat::kMpegTs},     {"mts", MediaFormat::kMpegTs},
    {"m2ts", MediaFormat::kMpegTs},   {"mpg", MediaFormat::kMpegPs},
    {"mpeg", MediaFormat::kMpegPs},   {"vob", MediaFormat::kMpegPs},
    {"flv", MediaFormat::kFlv},       {"wmv", MediaFormat::kWmv},
    {"asf", MediaFormat::kWmv},       {"ogv", MediaFormat::kOgv},
    {"m4a", MediaFormat::kM4a},       {"m4b", MediaFormat::kM4a},
    {"mka", MediaFormat::kMka},       {"weba", MediaFormat::kMka},
    {"wma", MediaFormat::kWma},       {"spx", MediaFormat::kOggSound},
    {"aac", MediaFormat::kAdts},      {"aif", MediaFormat::kAiff},
    {"aiff", MediaFormat::kAiff},     {"aifc", MediaFormat::kAiff},
    {"caf", MediaFormat::kCaf},       {"tif", MediaFormat::kTiff},
    {"tiff", MediaFormat::kTiff},     {"heic", MediaFormat::kHeic},
    {"heif", MediaFormat::kHeic},     {"hif", MediaFormat::kHeic},
    {"avif", MediaFormat::kAvif},     {"avifs", MediaFormat::kAvif},
    {"mp2", MediaFormat::kMp3},
});

// Media of formats that are not read, and other names of those that are.
constexpr std::array kOtherMedia = std::to_array<std::pair<std::string_view, Modality>>({
    {"jxl", Modality::kImage},
    {"jp2", Modality::kImage},
    {"j2k", Modality::kImage},
    {"jpx", Modality::kImage},
    {"apng", Modality::kImage},
    {"dib", Modality::kImage},
    {"ico", Modality::kImage},
    {"tga", Modality::kImage},
    {"ppm", Modality::kImage},
    {"pgm", Modality::kImage},
    {"svg", Modality::kImage},
    {"amr", Modality::kAudio},
    {"au", Modality::kAudio},
    {"ac3", Modality::kAudio},
});

}  // namespace

std::string_view format_name(MediaFormat format) {
  const auto index = static_cast<std::size_t>(format);
  return index < kFormats.size() ? kFormats[index].name : "unknown";
}

std::string part_extension(std::string_view part_name) {
  // "jpg" is all extension: the dot that separates key and part name is already gone.
  return lower_ascii(part_name.substr(part_name.rfind('.') + 1));
}

std::optional<MediaFormat> format_from_extension(std::string_view part_name) {
  const std::string extension = part_extension(part_name);
  const auto found = std::ranges::find(kExtensions, std::string_view(extension),
                                       &std::pair<std::string_view, MediaFormat>::first);
  if (found == kExtensions.end()) return std::nullopt;
  // Other JSON, such as "meta.json", is for the user's own programs.
  const bool is_other_json =
      found->second == MediaFormat::kJson && extension.size() < part_name.size();
  return is_other_json ? std::nullopt : std::optional(found->second);
}

std::string_view extension_of(MediaFormat format) {
  const auto found =
      std::ranges::find(kExtensions, format, &std::pair<std::string_view, MediaFormat>::second);
  return found == kExtensions.end() ? std::string_view() : found->first;
}

std::optional<Modality> modality_from_name(std::string_view part_name) {
  if (const auto format = format_from_extension(part_name)) return modality_of(*format);
  const std::string extension = part_extension(part_name);
  const auto found = std::ranges::find(kOtherMedia, std::string_view(extension),
                                       &std::pair<std::string_view, Modality>::first);
  return found == kOtherMedia.end() ? std::nullopt : std::optional(found->second);
}

Modality modality_of(MediaFormat format) {
  return kFormats.at(static_cast<std::size_t>(format)).modality;
}

std::optional<MediaFormat> sound_only(MediaFormat container) {
  switch (container) {
    case MediaFormat::kMp4:
      return MediaFormat::kM4a;
    case MediaFormat::kMatroska:
      return MediaFormat::kMka;
    case MediaFormat::kAvi:
      return MediaFormat::kAviSound;
    case MediaFormat::kMpegTs:
      return MediaFormat::kMpegTsSound;
    case MediaFormat::kMpegPs:
      return MediaFormat::kMpegPsSound;
    case MediaFormat::kFlv:
      return MediaFormat::kFlvSound;
    case MediaFormat::kWmv:
      return MediaFormat::kWma;
    case MediaFormat::kOgv:
      return MediaFormat::kOggSound;
    default:
      return std::nullopt;
  }
}

}  // namespace isocost
