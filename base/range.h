#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// Whether `value` is within [least, most]. Errors: kInvalidArgument with the field's name, its
/// value and the range.
Status check_range(std::string_view field, std::int64_t value, std::int64_t least,
                   std::int64_t most);

}  // namespace isocost
