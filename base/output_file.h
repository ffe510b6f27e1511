#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Whether `file` may be written later, so that hours of work do not end in an error: asks for
/// rights, writes nothing. Empty paths pass. Errors: kInvalidArgument with `option` and the reason.
Status check_output_file(std::string_view option, const std::filesystem::path& file);

/// Replaces `file` in one piece: whoever reads it sees the old bytes or the new. Errors: kIo.
Status replace_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace isocost
