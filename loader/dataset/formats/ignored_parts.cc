#include "loader/dataset/formats/ignored_parts.h"

#include <algorithm>

#include "base/fingerprint.h"
#include "base/utf8.h"

namespace isocost {

Result<IgnoredParts> IgnoredParts::parse(std::string_view list) {
  IgnoredParts parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    if (entry.starts_with('.')) entry.remove_prefix(1);
    if (entry.empty() || entry.find_first_of("/ \t") != entry.npos ||
        printable_utf8(entry) != entry) {
      return Error(ErrorCode::kInvalidArgument,
                   "ignore_parts: '" + printable_utf8(entry) +
                       "' is no extension; name extensions with commas between, as in avif,heic");
    }
    parts.extensions_.push_back(lower_ascii(entry));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  std::ranges::sort(parts.extensions_);
  const auto repeated = std::ranges::unique(parts.extensions_);
  parts.extensions_.erase(repeated.begin(), repeated.end());
  return parts;
}

bool IgnoredParts::contains(std::string_view part_name) const {
  if (extensions_.empty()) return false;
  const std::string name = lower_ascii(part_name);
  return std::ranges::any_of(extensions_, [&](const std::string& extension) {
    if (!name.ends_with(extension)) return false;
    return name.size() == extension.size() || name[name.size() - extension.size() - 1] == '.';
  });
}

std::uint64_t IgnoredParts::hash() const {
  if (extensions_.empty()) return 0;
  Fingerprint fingerprint;
  for (const std::string& extension : extensions_) fingerprint.add(extension);
  return fingerprint.value();
}

}  // namespace isocost
