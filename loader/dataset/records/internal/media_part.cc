#include "loader/dataset/records/internal/media_part.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "decode/shape/media_formats.h"
#include "loader/dataset/records/internal/embedded_medium.h"
#include "loader/dataset/records/internal/json_records.h"

namespace isocost {
namespace {

std::string part_name(std::size_t index, std::string_view extension) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%03zu.", index);
  return digits.data() + std::string(extension);
}

// Returns the medium that the record holds; nothing if it names a file.
Result<std::optional<EmbeddedMedium>> embedded(const MediaReference& reference,
                                               const MediaPaths& paths) {
  const std::string& text = reference.name();
  ISOCOST_ASSIGN(std::optional<EmbeddedMedium> medium, medium_of_url(text));
  if (!medium && reference.is_bytes) {
    ISOCOST_ASSIGN(medium, medium_of_base64(text, reference.format));
  } else if (!medium && text.find('.') == text.npos && !paths.is_file(text)) {
    medium = medium_if_base64(text);
  }
  return medium;
}

}  // namespace

Result<InputPart> media_part(const MediaReference& reference, std::size_t index,
                             MediaPaths& paths) {
  auto held = embedded(reference, paths);
  if (!held) {
    return corrupt_record(quoted_name(reference.name()) + " " + held.error().message());
  }
  if (std::optional<EmbeddedMedium>& medium = *held) {
    InputPart part{part_name(index, medium->extension), std::move(medium->bytes),
                   reference.modality};
    for (nlohmann::ordered_json* string : reference.strings) *string = part.name;
    return part;
  }
  ISOCOST_ASSIGN(std::filesystem::path file, paths.find(reference.name()));
  std::string extension = file.extension().string();
  if (!extension.empty()) extension.erase(0, 1);
  const auto modality = modality_from_name(extension);
  if (!paths.looks()) return InputPart{part_name(index, extension), std::move(file)};
  if (extension.empty() || !modality || *modality == Modality::kText) {
    return corrupt_record(quoted_name(reference.name()) +
                          ": not the extension of an image, audio or video file");
  }
  return InputPart{part_name(index, extension), std::move(file), reference.modality};
}

}  // namespace isocost
