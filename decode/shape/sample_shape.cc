#include "decode/shape/sample_shape.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace isocost {
namespace {

constexpr std::array<std::string_view, 16> kFormatNames = {
    "UTF-8 text", "JSON",       "JPEG", "PNG", "WebP", "GIF",      "BMP", "WAV",
    "FLAC",       "Ogg Vorbis", "Opus", "MP3", "MP4",  "Matroska", "AVI", "tokens"};

constexpr std::array<std::pair<std::string_view, MediaFormat>, 28> kExtensions = {{
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
}};

// Media of formats that are not read, and other names of those that are.
constexpr std::array<std::pair<std::string_view, Modality>, 44> kOtherMedia = {{
    {"avif", Modality::kImage}, {"avifs", Modality::kImage}, {"heic", Modality::kImage},
    {"heif", Modality::kImage}, {"hif", Modality::kImage},   {"tif", Modality::kImage},
    {"tiff", Modality::kImage}, {"jxl", Modality::kImage},   {"jp2", Modality::kImage},
    {"j2k", Modality::kImage},  {"jpx", Modality::kImage},   {"apng", Modality::kImage},
    {"dib", Modality::kImage},  {"ico", Modality::kImage},   {"tga", Modality::kImage},
    {"ppm", Modality::kImage},  {"pgm", Modality::kImage},   {"svg", Modality::kImage},
    {"m4a", Modality::kAudio},  {"aac", Modality::kAudio},   {"wma", Modality::kAudio},
    {"aif", Modality::kAudio},  {"aiff", Modality::kAudio},  {"aifc", Modality::kAudio},
    {"caf", Modality::kAudio},  {"mka", Modality::kAudio},   {"spx", Modality::kAudio},
    {"amr", Modality::kAudio},  {"au", Modality::kAudio},    {"mp2", Modality::kAudio},
    {"ac3", Modality::kAudio},  {"weba", Modality::kAudio},  {"ts", Modality::kVideo},
    {"mts", Modality::kVideo},  {"m2ts", Modality::kVideo},  {"flv", Modality::kVideo},
    {"wmv", Modality::kVideo},  {"asf", Modality::kVideo},   {"mpg", Modality::kVideo},
    {"mpeg", Modality::kVideo}, {"vob", Modality::kVideo},   {"ogv", Modality::kVideo},
    {"3gp", Modality::kVideo},  {"3g2", Modality::kVideo},
}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string_view format_name(MediaFormat format) {
  const auto index = static_cast<std::size_t>(format);
  return index < kFormatNames.size() ? kFormatNames[index] : "unknown";
}

std::string part_extension(std::string_view part_name) {
  // "jpg" is all extension: the dot that separates key and part name is already gone.
  std::string extension(part_name.substr(part_name.rfind('.') + 1));
  std::transform(extension.begin(), extension.end(), extension.begin(), lower);
  return extension;
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

std::optional<Modality> modality_from_name(std::string_view part_name) {
  if (const auto format = format_from_extension(part_name)) return modality_of(*format);
  const std::string extension = part_extension(part_name);
  const auto found = std::ranges::find(kOtherMedia, std::string_view(extension),
                                       &std::pair<std::string_view, Modality>::first);
  return found == kOtherMedia.end() ? std::nullopt : std::optional(found->second);
}

Modality modality_of(MediaFormat format) {
  if (format <= MediaFormat::kJson || format == MediaFormat::kTokens) return Modality::kText;
  if (format <= MediaFormat::kBmp) return Modality::kImage;
  return format <= MediaFormat::kMp3 ? Modality::kAudio : Modality::kVideo;
}

}  // namespace isocost
