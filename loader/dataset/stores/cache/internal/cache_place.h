#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Version of entries and their directory. A cache of another version is left alone.
inline constexpr int kCacheVersion = 1;
/// The file that makes a directory a cache, and says its version.
inline constexpr std::string_view kCacheMark = "isocost-cache";

/// Makes a directory a cache if it is absent or empty, and checks that it is one which this process
/// may use: see ObjectCache::open for the errors. kResourceExhausted: the disk is full or
/// read-only, so that none could be made.
Status prepare_cache_place(const std::filesystem::path& directory);

/// Checks that a directory is a cache. Errors: kNotFound, kIo; kInvalidArgument for another
/// directory, and, but for `any_version`, for a cache of another version.
Status check_is_cache(const std::filesystem::path& directory, bool any_version);

/// Returns the name of a file system of the network, by statfs's number of its kind; empty: it is
/// none.
std::string_view network_file_system(long kind);

}  // namespace isocost
