#include "costmodel/internal/measurement_check.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

namespace isocost {
namespace {

constexpr std::int32_t kLargestRank = 1 << 20;

Status refuse(const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, "measurement: " + what);
}

}  // namespace

Status check_measurement(const Measurement& measurement) {
  if (measurement.rank < 0 || measurement.rank >= kLargestRank) {
    return refuse("the rank is " + std::to_string(measurement.rank));
  }
  for (std::size_t i = 0; i < kModules; ++i) {
    const std::string name(module_name(static_cast<CostModule>(i)));
    const double seconds = measurement.seconds.at(i);
    if (!is_reportable(seconds)) {
      std::ostringstream text;
      text << "seconds of " << name << " are " << seconds
           << "; they must be 1e-9 to 86400, or -1 for 'not measured'";
      return refuse(text.str());
    }
    const ModuleLoad& load = measurement.load.modules.at(i);
    if (load.sequences < 0 || load.units < 0 || load.units_squared < 0) {
      return refuse("the load of " + name + " is negative");
    }
  }
  const bool is_share = measurement.forward_share >= 0 && measurement.forward_share <= 1;
  if (!is_share && measurement.forward_share != kNotMeasured) {
    return refuse("the forward share is " + std::to_string(measurement.forward_share));
  }
  if (!is_reportable(measurement.measuring_s)) {
    return refuse("measuring took " + std::to_string(measurement.measuring_s) + " s");
  }
  const auto index_of = [](const BucketSeconds& part) {
    return static_cast<std::size_t>(part.module) * kShapeBuckets + part.bucket;
  };
  std::size_t next = 0;
  for (const BucketSeconds& part : measurement.shape) {
    const std::size_t at = index_of(part);
    if (part.bucket >= kShapeBuckets || at < next || at >= kModules * kShapeBuckets ||
        !(part.seconds >= 0) || !std::isfinite(part.seconds)) {
      return refuse("the shape does not come from this model");
    }
    next = at + 1;
  }
  return {};
}

}  // namespace isocost
