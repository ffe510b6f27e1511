#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Checks that `file` can be written later, so that hours of work do not end in an error. Checks
/// permissions and writes nothing; an empty path passes. Errors: kInvalidArgument with `option` and
/// the reason.
Status check_output_file(std::string_view option, const std::filesystem::path& file);

/// Replaces `file` atomically: a reader sees either the old bytes or the new ones. Errors: kIo.
Status replace_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace isocost
