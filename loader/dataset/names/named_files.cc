#include "loader/dataset/names/named_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/read_file.h"
#include "base/utf8.h"
#include "loader/dataset/formats/metadataset.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/names/brace_expansion.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/names/internal/address.h"
#include "loader/dataset/names/internal/file_kind.h"
#include "loader/dataset/names/internal/object_names.h"
#include "loader/dataset/names/internal/path_pattern.h"
#include "loader/dataset/stores/directory_listing.h"
#include "loader/dataset/stores/object_address.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::size_t kMostListBytes = std::size_t{256} << 20;
constexpr std::size_t kMostMetadatasetBytes = std::size_t{16} << 20;
constexpr std::string_view kWild = "*?[{";
constexpr std::string_view kBetween = "::";

using Entries = std::vector<NamedFiles>;
using Kind = NamedPart::Kind;

Error invalid(std::string_view given, std::string_view problem) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", printable_path(given), problem)};
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // such as that of a name that is too long
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path or_here(const fs::path& directory) { return directory.empty() ? "." : directory; }

// Returns what a path that is not there may have been meant to be, as the end of a message.
std::string hint_of(std::string_view text) {
  if (text.starts_with('~') || text.find('$') != std::string_view::npos) {
    return "; '~' and '$' are not expanded here";
  }
  if (text.find(',') != std::string_view::npos) {
    return "; a comma is part of a path, and '::' stands between several";
  }
  if (text.ends_with(' ')) return "; it ends with a blank";
  return "";
}

Error not_found(std::string_view given, std::string_view text, const fs::path& directory) {
  return {ErrorCode::kNotFound,
          fmt::format("{}: no such file or directory; {}{}", printable_path(given),
                      what_lies_beside(or_here(directory)), hint_of(text))};
}

// Refuses a file that describes how Energon mixes data sets.
Status refuse_metadataset(const fs::path& file, std::string_view given) {
  const std::string ending = lower_ascii(file.extension().string());
  if (ending != ".yaml" && ending != ".yml") return {};
  ISOCOST_ASSIGN(const std::string text, read_file("metadataset", file, kMostMetadatasetBytes));
  const auto reason = why_no_metadataset(text, "train");
  return reason ? Status(invalid(given, *reason)) : Status();
}

// Refuses what is no path.
Status check_text(std::string_view text, std::string_view given) {
  if (text.find('\0') != std::string_view::npos) {
    return invalid(given, "it holds a byte of value 0; give a path without one");
  }
  return {};
}

// Adds the parts of an entry with wildcards and braces.
class Expansion {
 public:
  explicit Expansion(NamedFiles& entry) : entry_(entry), walk_(entry.root, kMostFiles) {}

  Status add(const std::string& word);

 private:
  Status add_existing(const fs::path& below);

  NamedFiles& entry_;
  PatternWalk walk_;
};

Status Expansion::add(const std::string& word) {
  const fs::path below = fs::path(word).lexically_normal();
  if (below.is_absolute() || std::ranges::find(below, "..") != below.end()) {
    return invalid(entry_.given, fmt::format("'{}' leaves the directory before the first wildcard "
                                             "or brace; put it before them, or use '::'",
                                             printable_path(word)));
  }
  if (is_there(entry_.root / below)) return add_existing(below);
  if (has_wildcard(word)) {
    NamedPart part{.kind = Kind::kPattern, .path = word, .files = {}};
    auto matched = walk_.match(PathPattern(word));
    if (!matched) return std::move(matched).error().with_context(printable_path(entry_.given));
    part.files = *std::move(matched);
    entry_.parts.push_back(std::move(part));
    return {};
  }
  if (word.find_first_of("{}") != std::string::npos) {
    return invalid(entry_.given,
                   fmt::format("'{}': a brace that neither lists, as {{a,b}}, nor counts, as "
                               "{{000..099}}",
                               printable_path(word)));
  }
  if (!has_shard_ending(word)) {
    return not_found(fmt::format("{}: {}", entry_.given, word), word, entry_.root);
  }
  entry_.parts.push_back({.kind = Kind::kFile, .path = below.string(), .files = {}});
  return {};
}

Status Expansion::add_existing(const fs::path& below) {
  Kind kind = Kind::kFile;
  const fs::path path = entry_.root / below;
  if (is_folder(path)) {
    kind = has_shard_ending(below.string()) ? Kind::kFile : Kind::kDirectory;
  } else if (!has_shard_ending(below.string())) {
    ISOCOST_ASSIGN(const FileKind found, kind_of_file(path));
    if (found == FileKind::kRecords) kind = Kind::kRecords;
    if (found == FileKind::kList) {
      return invalid(entry_.given,
                     fmt::format("{} is a list; give it alone", printable_path(below.string())));
    }
  }
  entry_.parts.push_back({.kind = kind, .path = below.string(), .files = {}});
  return {};
}

// Returns the length of the directories at the beginning of a text that exist or have no wildcard,
// with their last slash.
std::size_t literal_prefix(std::string_view text, const fs::path& base) {
  std::size_t length = 0;
  for (std::size_t slash = text.find('/'); slash != std::string_view::npos;
       slash = text.find('/', slash + 1)) {
    const std::string_view name = text.substr(length, slash - length);
    const bool is_plain = name.find_first_of(kWild) == std::string_view::npos;
    if (!is_plain && !is_folder(base / fs::path(text.substr(0, slash)))) break;
    length = slash + 1;
  }
  return length;
}

class Resolving {
 public:
  Resolving(Stores* stores, const std::stop_token& stop) : stores_(stores), stop_(stop) {}

  // Adds what a text names, whose entries are relative to `base`.
  Status add(std::string_view text, const fs::path& base);
  Entries entries() && { return std::move(entries_); }

 private:
  struct Text {
    std::string_view text;
    const fs::path& base;
    std::string given;
    bool is_line = false;
  };

  Status add_entry(const Text& text);
  Status add_file(const Text& text, const fs::path& path);
  Status add_list(const fs::path& file);
  Status add_objects(const Text& text);
  Status expand(const Text& text);
  void add_part(const Text& text, fs::path root, NamedPart part);

  Stores* const stores_;  // null: addresses are refused
  const std::stop_token& stop_;
  Entries entries_;
};

Status Resolving::add(std::string_view text, const fs::path& base) {
  if (!text.empty() && is_there(base / fs::path(text))) {
    return add_entry({text, base, std::string(text)});
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(between_entries(text, begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    if (entry.empty()) {
      return invalid(without_secrets(text.substr(0, begin)),
                     "no data is named; give a directory, a file or a pattern");
    }
    ISOCOST_TRY(add_entry({entry, base, std::string(entry)}));
    begin = end + kBetween.size();
  }
  return {};
}

Status Resolving::add_entry(const Text& text) {
  ISOCOST_TRY(check_text(text.text, text.given));
  if (stores_ != nullptr && ObjectAddress::is_one(text.text)) return add_objects(text);
  const fs::path path = text.base / fs::path(text.text);
  if (is_folder(path)) {
    add_part(text, path, {.kind = Kind::kDirectory, .path = "", .files = {}});
    return {};
  }
  if (is_there(path)) return add_file(text, path);
  if (const auto reason = why_no_address(text.text)) return invalid(text.given, *reason);
  if (text.is_line && text.text.find(kBetween) != std::string_view::npos) {
    return invalid(text.given, "'::' in a line of a list; write two lines");
  }
  if (text.text.find_first_of(kWild) != std::string_view::npos) return expand(text);
  const fs::path directory = or_here(path.parent_path());
  if (!has_shard_ending(path.filename().string()) || !is_folder(directory)) {
    return not_found(text.given, text.text, directory);
  }
  add_part(text, directory, {.kind = Kind::kFile, .path = path.filename().string(), .files = {}});
  return {};
}

Status Resolving::add_objects(const Text& text) {
  ISOCOST_ASSIGN(NamedFiles entry,
                 name_objects(text.text, without_secrets(text.given), kMostFiles, *stores_, stop_));
  entry.is_line = text.is_line;
  entries_.push_back(std::move(entry));
  return {};
}

void Resolving::add_part(const Text& text, fs::path root, NamedPart part) {
  entries_.push_back({text.given, std::move(root), {std::move(part)}, text.is_line});
}

Status Resolving::add_file(const Text& text, const fs::path& path) {
  if (path.extension() == ".toml") {
    return invalid(text.given,
                   "a mixture, which is given alone; name its sources' data here, or these as a "
                   "source in it");
  }
  ISOCOST_ASSIGN(const FileKind kind, kind_of_file(path));
  ISOCOST_TRY(refuse_metadataset(path, text.given));
  if (kind != FileKind::kList) {
    add_part(text, or_here(path.parent_path()),
             {.kind = kind == FileKind::kShard ? Kind::kFile : Kind::kRecords,
              .path = path.filename().string(),
              .files = {}});
    return {};
  }
  if (text.is_line) return invalid(text.given, "a list in a list; put its lines in the first one");
  return add_list(path);
}

Status Resolving::add_list(const fs::path& file) {
  ISOCOST_ASSIGN(const std::string content, read_file("list", file, kMostListBytes));
  const std::size_t before = entries_.size();
  const fs::path base = file.parent_path();
  std::string_view rest = without_byte_order_mark(content);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || line.starts_with('#')) continue;
    ISOCOST_TRY(
        add_entry({line, base, fmt::format("{}, line {}: {}", file.string(), number, line), true}));
  }
  if (entries_.size() == before) return invalid(file.string(), "a list without a path");
  return {};
}

Status Resolving::expand(const Text& text) {
  const std::size_t behind = literal_prefix(text.text, text.base);
  NamedFiles entry;
  entry.given = text.given;
  entry.is_line = text.is_line;
  entry.root = or_here(text.base / fs::path(text.text.substr(0, behind)));
  if (!is_folder(entry.root)) return not_found(text.given, text.text, entry.root);
  auto words = expand_braces(text.text.substr(behind), kMostFiles);
  if (!words) return std::move(words).error().with_context(printable_path(text.given));
  Expansion expansion(entry);
  for (const std::string& word : *words) ISOCOST_TRY(expansion.add(word));
  entries_.push_back(std::move(entry));
  return {};
}

}  // namespace

std::function<bool(std::string_view)> NamedPart::meaning() const {
  if (kind == Kind::kPattern) {
    return [pattern = PathPattern(path)](std::string_view name) { return pattern.matches(name); };
  }
  if (kind != Kind::kDirectory) return [](std::string_view) { return false; };
  return [this](std::string_view name) {
    const std::size_t slash = name.rfind('/');
    return name.substr(0, slash == std::string_view::npos ? 0 : slash) == path;
  };
}

Result<Entries> resolve_names(std::string_view text, const fs::path& base, Stores* stores,
                              const std::stop_token& stop) {
  Resolving resolving(stores, stop);
  ISOCOST_TRY(resolving.add(text, base));
  return std::move(resolving).entries();
}

std::string what_lies_beside(const fs::path& directory) {
  constexpr std::size_t kMostNamed = 3;
  const auto is_shown = [](std::string_view name) { return !name.starts_with('.'); };
  const std::string where = printable_path(directory.string());
  const auto files = list_directory(directory, is_shown);
  if (!files) return printable_path(files.error().message());
  if (files->empty()) return where + " is empty";
  std::string names;
  for (std::size_t i = 0; i < std::min(kMostNamed, files->size()); ++i) {
    names += (names.empty() ? "" : ", ") + printable_path((*files)[i].name);
  }
  if (files->size() > kMostNamed) names += fmt::format(" and {} more", files->size() - kMostNamed);
  return fmt::format("in {} there {} {}", where, files->size() == 1 ? "is" : "are", names);
}

}  // namespace isocost
