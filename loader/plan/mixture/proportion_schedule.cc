#include "loader/plan/mixture/proportion_schedule.h"

#include <cmath>
#include <cstddef>
#include <sstream>
#include <string>

#include "base/counted.h"
#include "loader/plan/mixture/step_ranges.h"

namespace isocost {
namespace {

constexpr double kLeast = 1e-9;
constexpr double kMost = 1e9;

std::string number_text(double value) { return (std::ostringstream() << value).str(); }

Status check_proportion(const Breakpoint& point, std::string_view source) {
  const double value = point.proportion;
  if (value == 0 || (value >= kLeast && value <= kMost)) return {};
  const std::string what = std::string(source) + ": proportion " + number_text(value) +
                           " at step " + std::to_string(point.step);
  if (std::isnan(value)) {
    return Error(ErrorCode::kInvalidArgument, what + " is not a number: give one of at least 0");
  }
  if (value < 0) {
    return Error(ErrorCode::kInvalidArgument,
                 what + " is negative: give 0 for a source that takes no part");
  }
  return Error(ErrorCode::kInvalidArgument,
               what +
                   " is out of range: give 0, or 1e-9 to 1e9; only the ratio to the other "
                   "sources matters");
}

}  // namespace

Status ProportionSchedule::validate(std::string_view source) const {
  const std::string where(source);
  if (points.size() > kMostBreakpoints) {
    return Error(ErrorCode::kInvalidArgument,
                 where + ": proportion has " + counted(points.size(), "breakpoint") +
                     ", and at most " + std::to_string(kMostBreakpoints) +
                     " are allowed: leave some out, and let ramp = true run between the others");
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    ISOCOST_TRY(check_proportion(points[i], source));
    if (points[i].step > kLastStep) {
      return Error(ErrorCode::kInvalidArgument, where + ": proportion has a breakpoint at step " +
                                                    std::to_string(points[i].step) +
                                                    ", behind the last possible step " +
                                                    std::to_string(kLastStep) + ": leave it out");
    }
    if (i > 0 && points[i].step <= points[i - 1].step) {
      return Error(ErrorCode::kInvalidArgument,
                   where + ": proportion has step " + std::to_string(points[i].step) +
                       " behind step " + std::to_string(points[i - 1].step) +
                       ": give each step once, in ascending order");
    }
  }
  return {};
}

}  // namespace isocost
