#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace isocost::cli {

/// Checks, before the work starts, that `file` can be written and that no older file is lost: an
/// existing file is replaced only with --force (`force`), or if the user agrees on a terminal. An
/// empty path passes, and so does anything but a regular file, such as /dev/stdout. Blocks while
/// the user is asked. Errors: kInvalidArgument with `option` if `file` cannot be written;
/// kAlreadyExists if it is to be kept.
Status check_new_file(std::string_view option, const std::filesystem::path& file, bool force);

}  // namespace isocost::cli
