#include "loader/dataset/shard_writing/internal/media_reference.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "base/utf8.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPath = 4096;

// Returns a name for messages: names come from outside and may be megabytes of base64.
std::string shown(std::string_view name) {
  constexpr std::size_t kMost = 80;
  const bool cut = name.size() > kMost;
  if (cut) {
    name = name.substr(0, kMost);
    while (!name.empty() && !is_utf8(name)) name.remove_suffix(1);
  }
  return "'" + printable_utf8(name) + (cut ? "...'" : "'");
}

Error refused(std::string_view name, std::string_view why) {
  return {ErrorCode::kCorrupt, shown(name).append(why)};
}

bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
  return lower_ascii(text.substr(0, lower.size())) == lower;
}

// Returns whether the name begins with "scheme://".
bool is_url(std::string_view name) {
  const std::size_t end = name.find("://");
  if (end == std::string_view::npos || end == 0) return false;
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
  });
}

std::optional<std::string_view> refuse_path(std::string_view name) {
  if (name.empty()) return " names no file";
  if (name.size() > kMaxPath) return ": longer than a path can be";
  const bool control = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (control) return ": control character in the path";
  return std::nullopt;
}

}  // namespace

Result<InputPart> media_part(const MediaReference& reference, std::size_t index,
                             const fs::path& root) {
  std::string_view name = reference.name;
  if (starts_with_ignoring_case(name, "data:")) {
    return refused(name, " holds its bytes as base64: write them to a file and name that");
  }
  constexpr std::string_view kFileUrl = "file://";
  if (starts_with_ignoring_case(name, kFileUrl)) {
    name.remove_prefix(kFileUrl.size());
  } else if (is_url(name)) {
    return refused(name, " is a URL: download it first and name the file");
  }
  if (auto why = refuse_path(name)) return refused(reference.name, *why);
  const fs::path path = fs::path(name).lexically_normal();
  if (path.is_relative() && *path.begin() == "..") {
    return refused(name, " leaves the directory that paths start at (--media-root sets another)");
  }
  std::string extension = path.extension().string();
  if (!extension.empty()) extension.erase(0, 1);
  const auto modality = modality_from_name(extension);
  if (extension.empty() || !modality || *modality == Modality::kText) {
    return refused(name, ": not the extension of an image, audio or video file");
  }
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%03zu.", index);
  return InputPart{digits.data() + extension, root / path, reference.modality};
}

Result<fs::path> file_of_part(const std::string& name, const fs::path& root) {
  if (auto why = refuse_path(name)) return refused(name, *why);
  return root / fs::path(name);
}

}  // namespace isocost
