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

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string_view format_name(MediaFormat format) {
  const auto index = static_cast<std::size_t>(format);
  return index < kFormatNames.size() ? kFormatNames[index] : "unknown";
}

std::optional<MediaFormat> format_from_extension(std::string_view part_name) {
  // "jpg" is all extension: the part that separates key and part name is already gone.
  std::string extension(part_name.substr(part_name.rfind('.') + 1));
  std::transform(extension.begin(), extension.end(), extension.begin(), lower);
  for (const auto& [name, format] : kExtensions) {
    if (name == extension) return format;
  }
  return std::nullopt;
}

Modality modality_of(MediaFormat format) {
  if (format <= MediaFormat::kJson || format == MediaFormat::kTokens) return Modality::kText;
  if (format <= MediaFormat::kBmp) return Modality::kImage;
  return format <= MediaFormat::kMp3 ? Modality::kAudio : Modality::kVideo;
}

}  // namespace isocost
