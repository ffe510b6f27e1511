#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// An entry of a directory that is meant to be a file.
struct ListedFile {
  std::filesystem::path path;
  std::string name;
  bool is_directory = false;
  /// Reason why there is no file to read, and what to do; empty: there is one.
  std::string problem;
};

/// Returns the entries of a directory whose names `is_wanted` accepts, by name. Looks into no
/// directory below. Errors: kNotFound (no such directory), kIo.
Result<std::vector<ListedFile>> list_directory(
    const std::filesystem::path& directory,
    const std::function<bool(std::string_view name)>& is_wanted);

/// Returns why a path is no file to read, and what to do; empty: it is one. A path that is not
/// there is no file. Errors: kIo if that cannot be said, as below a directory that this user may
/// not read.
Result<std::string> why_no_file(const std::filesystem::path& path);

/// Returns a file in a directory, or in one below, whose name `is_wanted` accepts; empty: there is
/// none among the first thousands of entries. Leaves out hidden directories and those behind links.
std::filesystem::path find_below(const std::filesystem::path& directory,
                                 const std::function<bool(std::string_view name)>& is_wanted);

}  // namespace isocost
