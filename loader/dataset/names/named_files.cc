#include "loader/dataset/names/named_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/read_file.h"
#include "base/utf8.h"
#include "loader/dataset/formats/metadataset.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/names/internal/address.h"
#include "loader/dataset/names/internal/brace_expansion.h"
#include "loader/dataset/names/internal/file_kind.h"
#include "loader/dataset/names/internal/path_pattern.h"
#include "loader/dataset/stores/directory_listing.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::size_t kMostListBytes = std::size_t{256} << 20;
constexpr std::size_t kMostMetadatasetBytes = std::size_t{16} << 20;
constexpr std::string_view kWild = "*?[{";

using Entries = std::vector<NamedFiles>;

Error invalid(std::string_view given, std::string_view problem) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", printable_utf8(given), problem)};
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // such as of a name that is too long
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path or_here(const fs::path& directory) { return directory.empty() ? "." : directory; }

NamedFiles named_file(const fs::path& path, std::string given) {
  NamedFiles entry;
  entry.given = std::move(given);
  entry.root = or_here(path.parent_path());
  entry.names = {path.filename().string()};
  return entry;
}

// Adds a word of an expanded entry: a name, a pattern, or a directory whose shards are meant.
Status add_word(NamedFiles& entry, const std::string& word) {
  const fs::path below = fs::path(word).lexically_normal();
  if (std::ranges::find(below, "..") != below.end()) {
    return invalid(entry.given, "'..' behind a wildcard or brace; put it before them");
  }
  const bool is_wild = has_wildcard(word);
  if (!is_wild && !is_folder(entry.root / below)) {
    entry.names.push_back(below.string());
    return {};
  }
  entry.patterns.push_back(is_wild ? word : (below / "*").string());
  auto matched = match_below(entry.root, entry.patterns.back(), kMostFiles);
  if (!matched) return std::move(matched).error().with_context(printable_utf8(entry.given));
  for (std::string& name : *matched) {
    const std::string last = fs::path(name).filename().string();
    if (is_shard_name(last) || is_records_name(last)) {
      entry.names.push_back(std::move(name));
    } else if (const std::string_view reason = why_no_shard(last); !reason.empty()) {
      entry.unread.push_back(fmt::format("{}: {}", name, reason));
    }
  }
  return {};
}

Result<NamedFiles> expand(std::string_view text, const fs::path& base, std::string given) {
  const std::size_t slash = text.substr(0, text.find_first_of(kWild)).rfind('/');
  const std::size_t behind = slash == std::string_view::npos ? 0 : slash + 1;
  NamedFiles entry;
  entry.given = std::move(given);
  entry.root = or_here(base / fs::path(text.substr(0, behind)));
  if (!is_folder(entry.root)) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("{}: {}", printable_utf8(entry.given), what_lies_beside(entry.root)));
  }
  auto words = expand_braces(text.substr(behind), kMostFiles);
  if (!words) return std::move(words).error().with_context(printable_utf8(entry.given));
  for (const std::string& word : *words) ISOCOST_TRY(add_word(entry, word));
  return entry;
}

Result<NamedFiles> missing(const fs::path& path, std::string given) {
  if (has_shard_ending(path.filename().string()) && is_folder(or_here(path.parent_path()))) {
    return named_file(path, std::move(given));
  }
  return Error(ErrorCode::kNotFound,
               fmt::format("{}: no such file or directory; {}", printable_utf8(given),
                           what_lies_beside(or_here(path.parent_path()))));
}

// Refuses a file that describes how Energon mixes data sets.
Status refuse_metadataset(const fs::path& file, std::string_view given) {
  const std::string ending = lower_ascii(file.extension().string());
  if (ending != ".yaml" && ending != ".yml") return {};
  ISOCOST_ASSIGN(const std::string text, read_file("metadataset", file, kMostMetadatasetBytes));
  const auto reason = why_no_metadataset(text, "train");
  return reason ? Status(invalid(given, *reason)) : Status();
}

Status add_list(Entries& entries, const fs::path& file);

// Adds an entry. An existing path is taken literally. `in_list`: it is a line of a list.
Status add_entry(Entries& entries, std::string_view text, const fs::path& base, std::string given,
                 bool in_list) {
  const fs::path path = base / fs::path(text);
  if (is_folder(path)) {
    NamedFiles directory;
    directory.given = std::move(given);
    directory.root = path;
    directory.is_directory = true;
    entries.push_back(std::move(directory));
    return {};
  }
  if (!is_there(path)) {
    if (const auto reason = why_no_address(text)) return invalid(given, *reason);
    const bool is_plain = text.find_first_of(kWild) == std::string_view::npos;
    ISOCOST_ASSIGN(NamedFiles named, is_plain ? missing(path, std::move(given))
                                              : expand(text, base, std::move(given)));
    entries.push_back(std::move(named));
    return {};
  }
  ISOCOST_ASSIGN(const FileKind kind, kind_of_file(path));
  ISOCOST_TRY(refuse_metadataset(path, given));
  if (kind == FileKind::kShard) {
    entries.push_back(named_file(path, std::move(given)));
    return {};
  }
  if (kind == FileKind::kRecords) {
    entries.push_back(named_file(path, std::move(given)));
    entries.back().is_records = true;
    return {};
  }
  if (in_list) return invalid(given, "a list in a list; put its lines in the first one");
  return add_list(entries, path);
}

Status add_list(Entries& entries, const fs::path& file) {
  ISOCOST_ASSIGN(const std::string content, read_file("list", file, kMostListBytes));
  std::string_view rest = without_byte_order_mark(content);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || line.starts_with('#')) continue;
    ISOCOST_TRY(add_entry(entries, line, file.parent_path(),
                          fmt::format("{}, line {}: {}", file.string(), number, line), true));
  }
  if (entries.empty()) return invalid(file.string(), "a list without a path");
  return {};
}

}  // namespace

bool NamedFiles::means(std::string_view name) const {
  return std::ranges::any_of(
      patterns, [name](const std::string& pattern) { return matches_pattern(name, pattern); });
}

Result<Entries> resolve_names(std::string_view text, const fs::path& base) {
  constexpr std::string_view kBetween = "::";
  Entries entries;
  if (is_there(base / fs::path(text)) && !text.empty()) {
    ISOCOST_TRY(add_entry(entries, text, base, std::string(text), false));
    return entries;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(kBetween, begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (part.empty())
      return invalid(text, "no data is named; give a directory, a file or a pattern");
    ISOCOST_TRY(add_entry(entries, part, base, std::string(part), false));
    begin = end + kBetween.size();
  }
  return entries;
}

std::string what_lies_beside(const fs::path& directory) {
  constexpr std::size_t kMostNamed = 3;
  const auto is_shown = [](std::string_view name) { return !name.starts_with('.'); };
  const auto files = list_directory(directory, is_shown);
  if (!files) return files.error().message();
  if (files->empty()) return directory.string() + " is empty";
  std::string names;
  for (std::size_t i = 0; i < std::min(kMostNamed, files->size()); ++i) {
    names += (names.empty() ? "" : ", ") + printable_utf8((*files)[i].name);
  }
  if (files->size() > kMostNamed) names += fmt::format(" and {} more", files->size() - kMostNamed);
  return fmt::format("in {} there {} {}", directory.string(), files->size() == 1 ? "is" : "are",
                     names);
}

}  // namespace isocost
