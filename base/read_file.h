#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// All bytes of a file, a pipe included, but never more than `max_bytes`, whatever it is. `what` it
/// is begins the errors: "profile p.json does not exist". Errors: kNotFound; kInvalidArgument for
/// a directory; kIo for what cannot be read; kResourceExhausted for more bytes.
Result<std::string> read_file(std::string_view what, const std::filesystem::path& file,
                              std::size_t max_bytes);

}  // namespace isocost
