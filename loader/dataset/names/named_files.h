#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// The files that one entry of a data text names below one directory.
struct NamedFiles {
  std::string given;           ///< The entry, for messages: with its list and line, if it has one.
  std::filesystem::path root;  ///< The directory below which the files have their names.
  /// Whether the entry is the root itself: all shards in it are meant, and none below.
  bool is_directory = false;
  /// Paths from the root, with '/', in the order of the entry; patterns add theirs sorted. Those
  /// that are named without a wildcard need not exist.
  std::vector<std::string> names;
  std::vector<std::string> patterns;  ///< Patterns of `match_below` that are part of the entry.
  /// Whether the name is that of a file of records, and no shard.
  bool is_records = false;
  /// Files that a pattern matches and that are no shards, if they look like one: "name: reason".
  std::vector<std::string> unread;

  /// Returns whether a file of this name would be meant if it existed.
  bool means(std::string_view name) const;
};

/// Finds what a data text names. Of each text it takes an existing path literally, whatever
/// characters it contains. Otherwise "::" separates entries, braces list and count (see
/// expand_braces), and '*', '?', '[' and "**" match (see match_below). The root of an entry is the
/// directory before its first wildcard or brace, and that of a plain file the file's directory. A
/// text file has an entry on each line, relative to the file's directory; blank lines and those
/// that begin with '#' are none. `base` is the directory to which the text is relative. Blocks
/// while it lists directories. Errors: kInvalidArgument (braces, a list in a list, a line that
/// names nothing, a file that is neither a shard nor a list), kNotFound (nothing of this name),
/// kResourceExhausted (over a million files), kIo.
Result<std::vector<NamedFiles>> resolve_names(std::string_view text,
                                              const std::filesystem::path& base = {});

/// Returns what lies where an entry was looked for, for messages: "in data/ there are a.tar, b.tar
/// and 8 more".
std::string what_lies_beside(const std::filesystem::path& directory);

}  // namespace isocost
