#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Returns whether a path holds '*', '?' or '[', which stand for other characters in a pattern.
bool has_wildcard(std::string_view path);

/// A pattern of paths. In a name, '*' is any characters, '?' one, "[abc]" and "[!abc]" one of these
/// or none (fnmatch(3), for UTF-8 whatever the process's locale); a first '.' is matched by none of
/// them, and a backslash is an ordinary character. "**" alone is any number of directories. Value
/// type; const-safe.
class PathPattern {
 public:
  explicit PathPattern(std::string_view text);

  /// Returns whether a path with '/', as of a file that is gone, matches.
  bool matches(std::string_view path) const;
  /// Returns the names and patterns of names between its slashes.
  std::span<const std::string> names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::string prefix_;  // of all paths that match
};

/// Finds the files below a directory that patterns match. Reads each directory once, so that files
/// which come meanwhile are not seen. Single-thread.
class PatternWalk {
 public:
  /// `most`: files that all patterns together may match.
  PatternWalk(std::filesystem::path root, std::size_t most);

  /// Returns the paths from the root that match, with '/', sorted. Directories are no files, unless
  /// they have the name of a shard; broken links are. "**" leaves out directories that are hidden
  /// or links. A directory that is not there holds no files. Errors: kIo (a directory cannot be
  /// listed), kResourceExhausted (over `most` files).
  Result<std::vector<std::string>> match(const PathPattern& pattern);

 private:
  struct Entry {
    std::string name;
    bool is_directory = false;  // or a link to one
    bool is_link = false;
  };

  using Names = std::span<const std::string>;
  Status visit(const std::string& below, Names names);
  Status visit_any(const std::string& below, Names names);
  Status take(const std::string& below, const Entry& entry, Names names);
  Result<const std::vector<Entry>*> entries_of(const std::string& below);

  const std::filesystem::path root_;
  const std::size_t most_;
  std::map<std::string, std::vector<Entry>> listed_;  // by the path from the root
  std::vector<std::string> found_;
  std::size_t found_before_ = 0;
};

}  // namespace isocost
