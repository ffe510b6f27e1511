#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Splits a command line into its words as a POSIX shell does, with quotation marks and
/// backslashes, but expands nothing. Errors: kInvalidArgument, as a predicate: "has a quotation
/// mark that is not closed".
Result<std::vector<std::string>> split_command(std::string_view line);

}  // namespace isocost
