#include "costmodel/internal/profile_points.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json_object.h"
#include "base/load.h"
#include "base/result.h"
#include "base/units.h"
#include "costmodel/profile.h"

namespace isocost {
namespace {

constexpr std::size_t kMostPoints = 1024;
constexpr double kMostSpread = 100;

Result<ProfilePoint> parse_point(const JsonObject& object) {
  ISOCOST_TRY(object.only_keys(
      {"sequences", "units", "units_squared", "forward_s", "backward_s", "spread", "peak_bytes"}));
  ProfilePoint point;
  ISOCOST_ASSIGN(point.load, parse_load(object));
  ISOCOST_ASSIGN(point.forward_s, object.amount("forward_s"));
  ISOCOST_ASSIGN(point.backward_s, object.amount("backward_s"));
  ISOCOST_ASSIGN(point.spread, object.amount("spread"));
  ISOCOST_ASSIGN(point.peak_bytes, object.whole("peak_bytes", 0, std::int64_t{1} << 50));
  if (point.spread > kMostSpread)
    return object.wrong("spread", "must be at most 100; measure again");
  if (!is_module_time(point.seconds())) {
    return object.wrong("forward_s", "and backward_s must add up to 1e-9 to 86400 seconds");
  }
  return point;
}

Status check_points(const std::vector<ProfilePoint>& points, const JsonObject& module) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = 0; j < points.size(); ++j) {
      if (i == j || !contradicts(points[i], points[j])) continue;
      const bool same = points[i].load == points[j].load;
      return module.wrong("points." + std::to_string(i),
                          "takes more than twice the seconds of point " + std::to_string(j) +
                              (same ? ", which has the same load" : ", whose load is not smaller") +
                              "; measure again");
    }
  }
  return {};
}

}  // namespace

Result<ModuleLoad> parse_load(const JsonObject& object) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  ModuleLoad load;
  ISOCOST_ASSIGN(load.sequences, object.whole("sequences", 1, kMost));
  ISOCOST_ASSIGN(load.units, object.whole("units", 1, kMost));
  ISOCOST_ASSIGN(load.units_squared, object.whole("units_squared", 1, kMost));
  const auto sequences = static_cast<double>(load.sequences);
  const auto units = static_cast<double>(load.units);
  const auto squared = static_cast<double>(load.units_squared);
  constexpr double kRounding = 1e-9;
  if (load.units < load.sequences || squared * (1 + kRounding) < units * units / sequences ||
      squared > units * units * (1 + kRounding)) {
    return object.wrong("units",
                        "is inconsistent: every sequence has at least one unit, and units_squared "
                        "is between units² / sequences (equal lengths) and units²");
  }
  return load;
}

Result<std::vector<ProfilePoint>> parse_points(const JsonObject& owner) {
  ISOCOST_ASSIGN(const std::vector<JsonObject> objects, owner.objects("points", kMostPoints));
  std::vector<ProfilePoint> points;
  for (const JsonObject& object : objects) {
    ISOCOST_ASSIGN(points.emplace_back(), parse_point(object));
  }
  ISOCOST_TRY(check_points(points, owner));
  return points;
}

}  // namespace isocost
