#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Returns whether a path holds '*', '?' or '[', which stand for other characters in a pattern.
bool has_wildcard(std::string_view path);

/// Returns the files below a directory whose paths from there match a pattern, as paths with '/',
/// sorted. In a name, '*' is any characters, '?' one, "[abc]" and "[!abc]" one of these or none
/// (fnmatch(3)); a first '.' is matched by none of them. "**" alone is any number of directories,
/// without those that are hidden or links. Broken links match, too. A directory that is not there
/// holds no files. Errors: kIo (a directory cannot be listed), kResourceExhausted (over `most`
/// files).
Result<std::vector<std::string>> match_below(const std::filesystem::path& directory,
                                             std::string_view pattern, std::size_t most);

/// Returns whether a path with '/', as of a file that is gone, matches a pattern of `match_below`.
bool matches_pattern(std::string_view path, std::string_view pattern);

}  // namespace isocost
