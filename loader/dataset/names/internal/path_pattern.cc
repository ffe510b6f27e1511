#include "loader/dataset/names/internal/path_pattern.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/formats/utf8_locale.h"
#include "loader/dataset/names/data_text.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kAnyDirectories = "**";
constexpr std::string_view kWildcards = "*?[";

std::vector<std::string> names_of(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    // Any number twice is any number.
    const bool repeats = name == kAnyDirectories && !names.empty() && names.back() == name;
    if (!name.empty() && name != "." && !repeats) names.emplace_back(name);
  }
  return names;
}

bool matches_name(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) == 0;
}

bool matches_names(std::span<const std::string> names, std::span<const std::string> pattern) {
  if (pattern.empty()) return names.empty();
  if (pattern.front() == kAnyDirectories) {
    // Alone at the end, it stands for the file, too.
    if (pattern.size() == 1) return !names.empty();
    if (matches_names(names, pattern.subspan(1))) return true;
    return !names.empty() && !names.front().starts_with('.') &&
           matches_names(names.subspan(1), pattern);
  }
  return !names.empty() && matches_name(pattern.front(), names.front()) &&
         matches_names(names.subspan(1), pattern.subspan(1));
}

}  // namespace

bool has_wildcard(std::string_view path) {
  return path.find_first_of(kWildcards) != std::string_view::npos;
}

PathPattern::PathPattern(std::string_view text) : names_(names_of(text)) {
  for (const std::string& name : names_) {
    const std::size_t wild = name.find_first_of(kWildcards);
    prefix_ += name.substr(0, wild);
    if (wild != std::string::npos) break;
    prefix_ += &name == &names_.back() ? "" : "/";
  }
}

bool PathPattern::matches(std::string_view path) const {
  if (!path.starts_with(prefix_)) return false;
  const Utf8Locale utf8;
  return matches_names(names_of(path), names_);
}

PatternWalk::PatternWalk(fs::path root, std::size_t most) : root_(std::move(root)), most_(most) {}

Result<std::vector<std::string>> PatternWalk::match(const PathPattern& pattern) {
  const Utf8Locale utf8;
  found_.clear();
  if (!pattern.names().empty()) ISOCOST_TRY(visit("", pattern.names()));
  std::ranges::sort(found_);
  const auto again = std::ranges::unique(found_);  // two "**" find a file in several ways
  found_.erase(again.begin(), again.end());
  found_before_ += found_.size();
  return std::move(found_);
}

// Adds what `names` match in a directory, whose path from the root is `below`.
Status PatternWalk::visit(const std::string& below, Names names) {
  if (names.front() == kAnyDirectories) return visit_any(below, names);
  if (!has_wildcard(names.front())) {
    std::error_code ignored;
    const fs::path path = root_ / (below + names.front());
    if (!fs::exists(fs::symlink_status(path, ignored))) return {};
    return take(below, {names.front(), fs::is_directory(path, ignored), false}, names);
  }
  ISOCOST_ASSIGN(const std::vector<Entry>* const entries, entries_of(below));
  for (const Entry& entry : *entries) {
    if (matches_name(names.front(), entry.name)) ISOCOST_TRY(take(below, entry, names));
  }
  return {};
}

Status PatternWalk::visit_any(const std::string& below, Names names) {
  if (names.size() > 1) ISOCOST_TRY(visit(below, names.subspan(1)));
  ISOCOST_ASSIGN(const std::vector<Entry>* const entries, entries_of(below));
  for (const Entry& entry : *entries) {
    if (entry.name.starts_with('.')) continue;
    if (entry.is_directory && !entry.is_link) {
      ISOCOST_TRY(visit_any(below + entry.name + "/", names));
    } else if (names.size() == 1) {
      ISOCOST_TRY(take(below, entry, names));
    }
  }
  return {};
}

// Adds an entry that the first of `names` matches, or what the others match in it.
Status PatternWalk::take(const std::string& below, const Entry& entry, Names names) {
  const std::string path = below + entry.name;
  if (names.size() > 1) {
    return entry.is_directory ? visit(path + "/", names.subspan(1)) : Status();
  }
  if (entry.is_directory && !has_shard_ending(entry.name)) return {};
  if (found_before_ + found_.size() == most_) {
    return Error(ErrorCode::kResourceExhausted, fmt::format("it matches over {} files", most_));
  }
  found_.push_back(path);
  return {};
}

Result<const std::vector<PatternWalk::Entry>*> PatternWalk::entries_of(const std::string& below) {
  const auto [listed, is_new] = listed_.try_emplace(below);
  std::vector<Entry>& entries = listed->second;
  if (!is_new) return &entries;
  std::error_code failed;
  fs::directory_iterator entry(root_ / below, failed);
  if (failed == std::errc::no_such_file_or_directory) return &entries;
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    std::error_code ignored;  // It may be gone by now.
    entries.push_back({entry->path().filename().string(), entry->is_directory(ignored),
                       entry->is_symlink(ignored)});
  }
  if (!failed) return &entries;
  return Error(ErrorCode::kIo,
               fmt::format("{}: cannot be listed: {}", printable_path((root_ / below).string()),
                           failed.message()));
}

}  // namespace isocost
