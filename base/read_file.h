#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Returns all bytes of a file or pipe. Errors begin with `what` ("profile p.json does not exist"):
/// kNotFound; kInvalidArgument for a directory; kIo if it cannot be read; kResourceExhausted for
/// more than `max_bytes`.
Result<std::string> read_file(std::string_view what, const std::filesystem::path& file,
                              std::size_t max_bytes);

}  // namespace isocost
