#include "base/range.h"

#include <iomanip>
#include <sstream>
#include <string>

namespace isocost {

Status check_range(std::string_view field, std::int64_t value, std::int64_t least,
                   std::int64_t most) {
  if (value >= least && value <= most) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(field) + " = " + std::to_string(value) +
                                                ": allowed are " + std::to_string(least) + " to " +
                                                std::to_string(most));
}

std::string in_seconds(std::chrono::milliseconds time) {
  std::ostringstream text;
  text << std::setprecision(12) << static_cast<double>(time.count()) / 1e3 << " s";
  return text.str();
}

Status check_range(std::string_view field, std::chrono::milliseconds value,
                   std::chrono::milliseconds least, std::chrono::milliseconds most) {
  if (value >= least && value <= most) return {};
  return Error(ErrorCode::kInvalidArgument, std::string(field) + " = " + in_seconds(value) +
                                                ": allowed are " + in_seconds(least) + " to " +
                                                in_seconds(most));
}

}  // namespace isocost
