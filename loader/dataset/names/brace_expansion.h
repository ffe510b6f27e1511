#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Returns the words that a text with braces stands for, in their order, as bash and Python's
/// braceexpand have them: "{a,b}" lists words, "{000..099}" and "{a..e}" count, "{0..9..3}" counts
/// in steps, and pairs may hold others. Numbers are as wide as the wider bound if one begins with a
/// zero. A pair that holds neither a comma nor a range stays as it is. Errors: kInvalidArgument (a
/// brace without its other one, braces over 32 deep, more than `most` words).
Result<std::vector<std::string>> expand_braces(std::string_view text, std::size_t most);

}  // namespace isocost
