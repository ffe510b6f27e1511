#include "loader/dataset/names/internal/path_pattern.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/result.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kAnyDirectories = "**";

std::vector<std::string> names_of(std::string_view pattern) {
  std::vector<std::string> names;
  for (const fs::path& name : fs::path(pattern)) {
    // Any number twice is any number.
    const bool repeats = name == kAnyDirectories && !names.empty() && names.back() == name;
    if (!name.empty() && name != "." && !repeats) names.push_back(name.string());
  }
  return names;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

// Walks the directories that the first names of a pattern match.
class Walk {
 public:
  explicit Walk(std::size_t most) : most_(most) {}

  // Adds what `names` match in `directory`, whose path from the first one is `below`.
  Status visit(const fs::path& directory, const std::string& below,
               std::span<const std::string> names) {
    if (names.front() == kAnyDirectories) return visit_any(directory, below, names);
    if (!has_wildcard(names.front())) return take(directory / names.front(), below, names);
    ISOCOST_ASSIGN(const std::vector<fs::path> entries, entries_of(directory));
    for (const fs::path& entry : entries) {
      if (!matches(names.front(), entry.filename().string())) continue;
      ISOCOST_TRY(take(entry, below, names));
    }
    return {};
  }

  std::vector<std::string> found() && {
    std::ranges::sort(found_);
    return std::move(found_);
  }

 private:
  // Adds an entry that the first of `names` matches, or what the others match in it.
  Status take(const fs::path& entry, const std::string& below, std::span<const std::string> names) {
    std::error_code ignored;  // It may be gone by now.
    const std::string path = below + entry.filename().string();
    if (names.size() > 1) {
      if (!fs::is_directory(entry, ignored)) return {};
      return visit(entry, path + "/", names.subspan(1));
    }
    if (fs::is_directory(entry, ignored) || !fs::exists(fs::symlink_status(entry, ignored))) {
      return {};
    }
    if (found_.size() == most_) {
      return Error(ErrorCode::kResourceExhausted, fmt::format("it matches over {} files", most_));
    }
    found_.push_back(path);
    return {};
  }

  Status visit_any(const fs::path& directory, const std::string& below,
                   std::span<const std::string> names) {
    if (names.size() > 1) ISOCOST_TRY(visit(directory, below, names.subspan(1)));
    ISOCOST_ASSIGN(const std::vector<fs::path> entries, entries_of(directory));
    for (const fs::path& entry : entries) {
      const std::string name = entry.filename().string();
      std::error_code ignored;
      if (name.starts_with('.')) continue;
      if (fs::is_directory(fs::symlink_status(entry, ignored))) {
        ISOCOST_TRY(visit_any(entry, below + name + "/", names));
      } else if (names.size() == 1) {
        ISOCOST_TRY(take(entry, below, names));
      }
    }
    return {};
  }

  static Result<std::vector<fs::path>> entries_of(const fs::path& directory) {
    std::vector<fs::path> entries;
    std::error_code failed;
    fs::directory_iterator entry(directory, failed);
    if (failed == std::errc::no_such_file_or_directory) return entries;
    for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
      entries.push_back(entry->path());
    }
    if (!failed) return entries;
    return Error(ErrorCode::kIo,
                 fmt::format("{}: cannot be listed: {}", directory.string(), failed.message()));
  }

  const std::size_t most_;
  std::vector<std::string> found_;
};

bool matches_names(std::span<const std::string> names, std::span<const std::string> pattern) {
  if (pattern.empty()) return names.empty();
  if (pattern.front() == kAnyDirectories) {
    // Alone at the end, it stands for the file, too.
    if (pattern.size() == 1) return !names.empty();
    if (matches_names(names, pattern.subspan(1))) return true;
    return !names.empty() && !names.front().starts_with('.') &&
           matches_names(names.subspan(1), pattern);
  }
  return !names.empty() && matches(pattern.front(), names.front()) &&
         matches_names(names.subspan(1), pattern.subspan(1));
}

}  // namespace

bool has_wildcard(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

Result<std::vector<std::string>> match_below(const fs::path& directory, std::string_view pattern,
                                             std::size_t most) {
  const std::vector<std::string> names = names_of(pattern);
  if (names.empty()) return std::vector<std::string>();
  Walk walk(most);
  ISOCOST_TRY(walk.visit(directory, "", names));
  return std::move(walk).found();
}

bool matches_pattern(std::string_view path, std::string_view pattern) {
  return matches_names(names_of(path), names_of(pattern));
}

}  // namespace isocost
