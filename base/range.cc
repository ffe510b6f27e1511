#include "base/range.h"

#include <string>

namespace isocost {

Status check_range(std::string_view field, std::int64_t value, std::int64_t least,
                   std::int64_t most) {
  if (value >= least && value <= most) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(field) + " = " + std::to_string(value) +
                                                ": allowed are " + std::to_string(least) + " to " +
                                                std::to_string(most));
}

}  // namespace isocost
