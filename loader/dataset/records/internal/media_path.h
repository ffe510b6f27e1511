#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Finds the files that records name. If no file has a path as written, the path is tried with its
/// backslashes as slashes, with its escapes of URLs decoded, with its components in Unicode's
/// composed (NFC) and decomposed (NFD) forms, and with all of these. A file is taken if it is the
/// only match. Single-thread.
class MediaPaths {
 public:
  /// Relative paths start at `root`, which they may leave by ".." only with `may_leave`.
  MediaPaths(std::filesystem::path root, bool may_leave)
      : root_(std::move(root)), may_leave_(may_leave) {}

  /// Finds nothing: takes each path as it is written, and no file for there. With it a record that
  /// was read before gives the same parts, whatever has become of its files.
  static MediaPaths without_files() {
    MediaPaths paths({}, /*may_leave=*/true);
    paths.looks_ = false;
    return paths;
  }
  /// Returns whether files are looked for.
  bool looks() const { return looks_; }

  /// Returns the file of a path or a file:// URL. Errors: kCorrupt for a URL of another scheme, a
  /// path that no file can have or that leaves the root, and if no file or several match:
  /// the message names what was tried.
  Result<std::filesystem::path> find(std::string_view name);
  /// Returns whether a regular file has the path, as it is written.
  bool is_file(std::string_view name) const;

  /// Returns how many paths were not found as they are written, by what was different: "Windows
  /// separators".
  const std::map<std::string, std::size_t>& changed() const { return changed_; }

 private:
  struct Search {
    std::map<std::filesystem::path, std::string> found;  // with what is different
    std::vector<std::string> tried;                      // spellings, in quotes
    bool leaves = false;                                 // whether a spelling leaves the root
  };
  Search search_all(std::string_view written) const;
  std::string why_none(std::string_view written, const Search& search) const;

  std::filesystem::path root_;
  bool may_leave_;
  bool looks_ = true;
  std::map<std::string, std::size_t> changed_;
};

/// Returns a name in quotes for messages: names come from outside and may be megabytes of base64.
std::string quoted_name(std::string_view name);

}  // namespace isocost
